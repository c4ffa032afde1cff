"""The pytest plugin: the fixture ``fusion``. It is loaded in every pytest run if
fusiondoc is installed, so nothing is imported here that a run without the fixture
does not need."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fusiondoc.testing import Fusion

_NO_TORCH = "fusiondoc: this Python has no torch (pip install torch), so nothing can be run under a fuser"


def pytest_addoption(parser: Any) -> None:
    """``--fusion-fuser`` and ``--fusion-required`` (also in the ini file),
    ``--fusion-keep``."""
    group = parser.getgroup("fusiondoc", "operator fusion (fusiondoc)")
    group.addoption(
        "--fusion-fuser",
        metavar="FUSER",
        help="Fuser of tests that do not choose one, as fusiondoc diagnose --fuser takes it.",
    )
    group.addoption(
        "--fusion-keep",
        metavar="DIR",
        help="Keep captures under DIR/TEST/ instead of the temporary folder of the test.",
    )
    group.addoption(
        "--fusion-required",
        action="store_true",
        help="Fail tests that would be skipped because their fuser cannot work here, or torch is missing.",
    )
    parser.addini(
        "fusion_required",
        "the same as --fusion-required",
        type="bool",
        default=False,
    )
    parser.addini(
        "fusion_fuser",
        "fuser of tests that do not choose one (auto)",
        default="auto",
    )


@pytest.fixture
def fusion(request: Any) -> Fusion:
    """Runs functions and modules of a test under a fuser in a process of its own:
    ``fusion.diagnose`` and ``fusion.assert_fused`` (docs/pytest.md). Skips where
    torch is not installed, or fails if required."""
    config = request.config
    required = bool(
        config.getoption("--fusion-required") or config.getini("fusion_required")
    )
    if importlib.util.find_spec("torch") is None:
        (pytest.fail if required else pytest.skip)(_NO_TORCH)
    from fusiondoc.testing import Fusion

    fuser = config.getoption("--fusion-fuser") or config.getini("fusion_fuser")
    return Fusion(
        request.node.nodeid, lambda: _folder(request), str(fuser), required
    )


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print the folders of the captures that were to be kept."""
    keep = config.getoption("--fusion-keep")
    if keep and Path(config.invocation_params.dir, keep).is_dir():
        terminalreporter.write_line(
            f"fusiondoc: captures are under {keep}; fusiondoc parse reads each"
        )


def _folder(request: Any) -> Path:
    """The folder for captures of the test, determined at its first run."""
    keep = request.config.getoption("--fusion-keep")
    if keep is None:
        return Path(request.getfixturevalue("tmp_path")) / ".fusiondoc"
    from fusiondoc.testing import folder_name

    return Path(
        request.config.invocation_params.dir, keep, folder_name(request.node.nodeid)
    )
