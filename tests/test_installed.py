"""The package as it is installed: a wheel with every file, where there is nothing
but its needs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command_line import ROOT, Run
from old_pythons import python_of
from thorough import THOROUGH

pytestmark = pytest.mark.xdist_group("installed")

LOG = ROOT / "fixtures" / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
EVERY_MODULE = """
import importlib, pkgutil, sys, fusiondoc
names = [m.name for m in pkgutil.walk_packages(fusiondoc.__path__, "fusiondoc.")]
programs = ("fusiondoc.suites.timed_programs",)
assert set(programs) <= set(names)
for name in names:
    if name.split(".")[1] not in ("probe", "testing", "pytest_plugin", "__main__") and name not in programs:
        importlib.import_module(name)
assert "torch" not in sys.modules
print(len(names), sys.version.split()[0], fusiondoc.__file__)
"""


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that finds nothing of this checkout."""
    foreign = ("PYTHON", "FUSIONDOC_", "COV")
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign)
    }
    own["COLUMNS"] = "80"
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of CI, if it has been built (``FUSIONDOC_BUILT``, a folder); else built
    from a copy, so that nothing of an earlier build gets into it."""
    built = os.environ.get("FUSIONDOC_BUILT")
    for ready in Path(built).glob("fusiondoc-*.whl") if built else ():
        return ready
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "fusiondoc",
        folder / "fusiondoc",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    isolated = (
        [] if not importlib.util.find_spec("wheel") else ["--no-build-isolation"]
    )
    pip(
        sys.executable,
        "wheel",
        "--no-deps",
        *isolated,
        "-w",
        folder / "dist",
        folder,
        cwd=folder,
    )
    (made,) = (folder / "dist").glob("fusiondoc-*.whl")
    return made


def pip(python: object, *arguments: object, cwd: Path) -> None:
    """Skips where there is no network."""
    options = ("--disable-pip-version-check", "--quiet", "--retries", "1")
    command = [*map(str, (python, "-m", "pip", *arguments, *options))]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode and "connection" in done.stderr.lower():
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    files = {
        path
        for path in (ROOT / "fusiondoc").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name for name in archive.namelist() if name.startswith("fusiondoc/")
        }
    assert packed == {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2_100_000


def reports(folder: Path, program: Path) -> dict[str, object]:
    """The commands that need no torch, and the report of the log without the time
    that it took."""
    run(program, "parse", LOG, "--output", "report.json", cwd=folder)
    run(program, "parse", LOG, "--output", "page.html", cwd=folder)
    page = (folder / "page.html").read_text("utf-8")
    assert "<style>" in page and "<script>" in page and "CudaFusionGroup" in page
    same = run(
        program, "compare", "report.json", LOG, "--format", "json", cwd=folder
    )
    assert json.loads(same.stdout)["same"] is True
    assert "FD201" in run(program, "explain", "FD201", cwd=folder).stdout
    run(program, "repro", LOG, "--group", "G1", "--output", "group.py", cwd=folder)
    compile((folder / "group.py").read_text("utf-8"), "group.py", "exec")
    report = json.loads((folder / "report.json").read_text("utf-8"))
    report["parse"]["seconds"] = report["timing"] = None
    return dict(report)


@pytest.mark.parametrize("version", ["3.10", "this"] if THOROUGH else ["3.10"])
@pytest.mark.nightly
def test_the_wheel_works_where_nothing_else_is_and_makes_the_same_reports(
    wheel: Path, tmp_path: Path, fusiondoc: Run, version: str
) -> None:
    """On Python 3.10 where there is one; that of the tests runs the package
    everywhere else."""
    interpreter = python_of("3.10") if version == "3.10" else sys.executable
    if interpreter is None:
        pytest.skip("needs Python 3.10")
    run(interpreter, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    # What pip installs runs in the other environment; pip itself stays in this one.
    pip(
        sys.executable,
        "--python",
        python,
        "install",
        "--no-compile",
        wheel,
        cwd=tmp_path,
    )
    said = run(python, "-c", EVERY_MODULE, cwd=tmp_path).stdout
    assert (" 3.10." in said or version != "3.10") and str(tmp_path) in said
    found = reports(tmp_path, python.with_name("fusiondoc"))
    here = json.loads(fusiondoc("parse", LOG, "--format", "json").stdout)
    here["parse"]["seconds"] = here["timing"] = None
    assert found == here
