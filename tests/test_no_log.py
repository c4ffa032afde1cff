"""Files that are no logs, empty ones, and two programs that have nothing to do with
each other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import FIXTURES, Run

LOGS = FIXTURES / "logs"
PROGRAM = "import torch\n\n\ndef model(x):\n    return x + 1\n"


def log(name: str) -> str:
    return str(next(LOGS.glob(name)))


REAL = "nvfuser-2.1.2-fallback-run.log.xz"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "notes.txt").write_text("a loss of 0.3\na loss of 0.2\n")
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "fusions.yaml").write_text("max_fallbacks: 0\n")
    shutil.copy(LOGS / REAL, tmp_path / "real.log.xz")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        (
            "model.py",
            "model.py is a Python program, not a log",
            "fusiondoc diagnose model.py",
        ),
        (
            "notes.txt",
            "notes.txt is no log of torch: none of its 2 lines is",
            "fusiondoc explain FD901",
        ),
        (
            "empty.log",
            "empty.log is an empty log: there is nothing to",
            "fusiondoc explain FD901",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_compare_refuses_what_is_no_log(
    name: str, error: str, hint: str, first: bool, fusiondoc: Run, files: Path
) -> None:
    both = (name, "real.log.xz") if first else ("real.log.xz", name)
    done = fusiondoc("compare", *both)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        f"error: {error}" in done.stderr
        and "next: " in done.stderr
        and hint in done.stderr
    )


def test_compare_refuses_two_programs(fusiondoc: Run, files: Path) -> None:
    shutil.copy(files / "model.py", files / "other.py")
    done = fusiondoc("compare", "model.py", "other.py")
    assert (
        done.returncode == 2
        and "model.py is a Python program, not a log" in done.stderr
    )


def test_check_refuses_what_is_no_log(fusiondoc: Run, files: Path) -> None:
    done = fusiondoc("check", "notes.txt", "--expect", "fusions.yaml")
    assert done.returncode == 2 and "notes.txt is no log of torch" in done.stderr
    done = fusiondoc("check", "-", "--expect", "fusions.yaml", input="hello\n")
    assert (
        done.returncode == 2
        and "stdin is no log of torch: its only line is not" in done.stderr
    )


def test_parse_takes_any_text_and_says_what_a_program_is(
    fusiondoc: Run, files: Path
) -> None:
    done = fusiondoc("parse", "notes.txt")
    assert (
        done.returncode == 0
        and "FD901 The log has no line about fusion" in done.stdout
    )
    done = fusiondoc("parse", "model.py")
    assert (
        done.returncode == 0
        and "FD901 model.py is a Python program, not a log" in done.stdout
    )
    assert (
        "$ fusiondoc diagnose model.py" in done.stdout
        and "compare" not in done.stdout
    )


def test_what_tells_of_an_error_is_a_log(fusiondoc: Run, files: Path) -> None:
    (files / "crash.log").write_text(
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nValueError: no\n'
    )
    done = fusiondoc("compare", "real.log.xz", "crash.log")
    assert done.returncode == 0


def test_two_programs_that_have_nothing_in_common(
    fusiondoc: Run, files: Path
) -> None:
    a, b = log("nnc-2.11-add-relu*"), log("nvfuser-2.1.2-ordered-layer-norm*")
    said = "A and B have nothing in common: no group of one is in the other"
    for options in ((), ("-q",), ("--summary",)):
        done = fusiondoc("compare", a, b, *options)
        assert done.returncode == 0 and done.stdout.startswith(said), done.stdout
    assert json.loads(fusiondoc("compare", a, b, "-f", "json").stdout)[
        "unrelated"
    ].startswith(said)
    assert f"**{said}" in fusiondoc("compare", a, b, "-f", "markdown").stdout
    assert said in fusiondoc("compare", a, b, "-f", "html").stdout


@pytest.mark.torch
def test_one_program_has_something_in_common(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """With itself, where nothing fuses, and under another name and other lines,
    fused or not."""
    text = "import torch\n\ndef model(x):\n    return torch.relu(x + 1) * x\n\ninputs = (torch.rand(4),)\n"
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "renamed.py").write_text("# a line\n" + text)
    for name, file, fuser in (
        ("a", "model.py", "nnc"),
        ("b", "model.py", "none"),
        ("c", "renamed.py", "nnc"),
        ("d", "renamed.py", "none"),
    ):
        assert (
            fusiondoc("diagnose", file, "--fuser", fuser, "--name", name).returncode
            == 0
        )
    for other in "abcd":
        assert "nothing in common" not in fusiondoc("compare", "a", other).stdout
