"""Commands that read logs work where neither torch nor what only POSIX has can be
imported (Windows)."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import FIXTURES, ROOT

from fusiondoc.cli import cli
from fusiondoc.errors import CannotRun
from fusiondoc.probe import log_and_records
from fusiondoc.repro.judge import run_file

LOG = FIXTURES / "compare" / "one-group.log"
OTHER = FIXTURES / "compare" / "split.log"
KERNELS = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"

PROGRAM = """
import json, sys

BLOCKED = {"fcntl", "resource", "termios", "torch", "pwd", "grp"}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

for name in BLOCKED:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocker())

from click.testing import CliRunner
from fusiondoc.cli import cli

statuses = []
for arguments in json.load(sys.stdin):
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if result.exception is not None:
        import traceback
        traceback.print_exception(*result.exc_info)
    statuses.append([result.exception is None, result.return_value])

import fusiondoc

loaded = [name for name in sys.modules if name.startswith("fusiondoc.")]
for name in fusiondoc.__all__:
    getattr(fusiondoc, name)
print(json.dumps({"statuses": statuses, "blocked": sorted(BLOCKED & set(sys.modules)), "loaded": loaded}))
"""

OMITTED = re.findall(
    r'^    "(fusiondoc/.+)",$',
    (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""What coverage leaves out."""

LOADED_FOR_TARGETS = ("probe/*", "runner/*", "suites/*", "workflows/*")
"""``check`` and ``kernels`` import what runs a model too; with a log they do not
use it."""


def test_every_command_that_reads_logs(tmp_path: Path) -> None:
    expect = tmp_path / "expect.yaml"
    expect.write_text("groups:\n- ops: [add, relu]\n")
    saved = tmp_path / "saved.json"
    commands = [["parse", str(LOG), "--output", str(saved)]]
    commands += [
        ["parse", str(source), "--format", form]
        for source in (LOG, CAPTURE, saved)
        for form in ("text", "json", "html")
    ]
    commands += [
        ["compare", str(LOG), str(OTHER), "--format", form]
        for form in ("text", "json", "html")
    ]
    commands += [["compare", str(saved), str(CAPTURE)]]
    commands += [
        ["check", str(LOG), "--expect", str(expect), "--format", form]
        for form in ("text", "json", "html")
    ]
    commands += [
        ["check", str(LOG), "--expect", str(tmp_path / "new.yaml"), "--update"]
    ]
    commands += [["explain", "FD201"], ["explain"]]
    commands += [
        ["repro", str(LOG)],
        ["repro", str(LOG), "--group", "G1", "--output", str(tmp_path / "g.py")],
    ]
    commands += [
        ["kernels", str(KERNELS), "--format", form] for form in ("text", "json")
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    failed = [
        one for one, (fine, _) in zip(commands, found["statuses"]) if not fine
    ]
    assert failed == [], done.stderr
    assert found["blocked"] == []
    files = [f"{name.replace('.', '/')}.py" for name in found["loaded"]]
    left_out = [
        file for file in files if any(fnmatch(file, pattern) for pattern in OMITTED)
    ]
    assert len(OMITTED) > 20 and len(files) > 100
    unused = [f"fusiondoc/{pattern}" for pattern in LOADED_FOR_TARGETS]
    assert [
        file
        for file in left_out
        if not any(fnmatch(file, pattern) for pattern in unused)
    ] == []
    assert "fusiondoc/workflows/load.py" not in left_out


def test_a_report_of_a_log_needs_nothing_that_starts_processes(
    tmp_path: Path,
) -> None:
    program = (
        "import sys\nfrom fusiondoc.workflows.load import report_from\n"
        f"report_from([{str(LOG)!r}])\nreport_from([{str(CAPTURE)!r}])\n"
        "print([name for name in sys.modules if name.startswith('fusiondoc.runner')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FUSIONDOC_CACHE": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert eval(done.stdout) == ["fusiondoc.runner"]


def test_help_imports_nothing_that_a_run_needs() -> None:
    """Its start is under 0.1 s for that; the dataclasses of a report alone would
    take a third of it."""
    names = "[name for name in sys.modules if name.startswith(('fusiondoc.', 'rich', 'yaml', 'jinja2'))]"
    code = f"import sys, atexit; atexit.register(lambda: print({names}, file=sys.stderr))\n"
    code += "from fusiondoc.cli import main; main(['parse', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--fail-on" in done.stdout
    loaded = set(ast.literal_eval(done.stderr))
    assert "fusiondoc.cli.parse" in loaded
    needed = (
        "fusiondoc.parsers",
        "fusiondoc.model.report",
        "fusiondoc.diagnosis",
        "fusiondoc.captures",
        "fusiondoc.masking",
        "fusiondoc.rendering.printable",
        "rich",
    )
    assert not [
        name for name in loaded if name.startswith((*needed, "yaml", "jinja2"))
    ]


def test_the_version_is_told_as_by_click_but_without_it() -> None:
    code = "import sys; sys.argv[1:] = ['--version']; from fusiondoc.__main__ import main; main()\n"
    code += "print([name for name in sys.modules if name.startswith(('fusiondoc.', 'click'))])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    shown, loaded = done.stdout.splitlines()
    assert shown == CliRunner().invoke(cli, ["--version"]).output.strip()
    assert set(ast.literal_eval(loaded)) == {
        "fusiondoc.version",
        "fusiondoc.__main__",
    }


def test_without_process_groups_nothing_runs_and_the_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows; what a program prints goes on, though ctypes finds no C
    library there."""
    monkeypatch.delattr(os, "killpg", raising=False)
    with pytest.raises(CannotRun) as told:
        run_file(Path(sys.executable), tmp_path / "repro.py", (), 1.0)
    assert "--minimise" in told.value.hint

    def no_library(name: object) -> None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")

    monkeypatch.setattr(log_and_records.ctypes, "CDLL", no_library)
    monkeypatch.setattr(log_and_records.os, "name", "nt")
    try:
        log_and_records.flush()
    finally:
        monkeypatch.undo()
