"""What the tests share: where the real logs are, and how to run the command line as a user does."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``torch`` skip where this interpreter has none; torch itself is not imported for that."""
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch in this interpreter")


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of real logs beside a development checkout; tests that need all of them skip without it."""
    folder = ROOT.parent / "shared" / "recordings"
    if not folder.is_dir():
        pytest.skip("the full set of recordings is not beside this checkout")
    return folder


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fusiondoc(tmp_path: Path) -> Run:
    """Run ``fusiondoc ARGS`` in a process of its own, in an empty folder unless ``cwd`` says otherwise."""

    def run(*args: object, cwd: Path | None = None, env: dict[str, str] | None = None, **kwargs: object):
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTORCH_", "FUSIONDOC_", "GITHUB_"))
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment["FUSIONDOC_CACHE"] = str(tmp_path / "cache")
        environment.setdefault("COLUMNS", "80")
        environment.update(env or {})
        return subprocess.run(
            [sys.executable, "-m", "fusiondoc", *map(str, args)],
            cwd=str(cwd or tmp_path),
            env=environment,
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
            **kwargs,  # type: ignore[call-overload]
        )

    return run
