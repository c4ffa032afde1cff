"""``fusiondoc parse`` as a user meets it: wrong input, empty logs, --fail-on,
pipes, speed of start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, ROOT, Run

LOGS = FIXTURES / "logs"
CLEAN = LOGS / "nvfuser-2.1.2-ordered-layer-norm.log.xz"


def test_a_log_that_does_not_exist(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("")
    done = fusiondoc("parse", "trian.log")
    assert done.returncode == 2
    assert "there is no log" in done.stderr and "train.log" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_logs(fusiondoc: Run, tmp_path: Path) -> None:
    done = fusiondoc("parse", tmp_path)
    assert done.returncode == 2 and ".log" in done.stderr


def test_no_log_and_no_capture(fusiondoc: Run) -> None:
    done = fusiondoc("parse")
    assert done.returncode == 2
    assert "diagnose" in done.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"epoch 1 loss 0.3\nepoch 2 loss 0.2\n", b"\xff\x00\x80" * 1000],
)
def test_a_log_without_fusion_lines_says_how_to_get_one(
    content: bytes, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_bytes(content)
    done = fusiondoc("parse", "train.log")
    assert done.returncode == 0
    assert "FD901" in done.stdout and "PYTORCH_JIT_LOG_LEVEL" in done.stdout
    assert fusiondoc("parse", "train.log", "--fail-on", "FD901").returncode == 1


def test_a_compressed_file_that_is_none(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "train.log.gz").write_text("not gzip")
    done = fusiondoc("parse", "train.log.gz")
    assert (
        done.returncode == 2
        and "compressed" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_compressed_file_that_is_cut_off_gives_what_it_holds(
    fusiondoc: Run, tmp_path: Path
) -> None:
    import gzip

    data = gzip.compress(
        raw_log.read(LOGS / "nvfuser-2.1.2-ordered-encoder-layer.log.xz")
    )
    (tmp_path / "train.log.gz").write_bytes(data[: len(data) // 2])
    done = fusiondoc("parse", "train.log.gz", "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["groups"]


def test_stdin(fusiondoc: Run) -> None:
    log = raw_log.read(CLEAN).decode()
    done = fusiondoc("parse", "-", input=log)
    assert done.returncode == 0 and "G2" in done.stdout


@pytest.mark.parametrize(
    ("log", "fail_on", "status"),
    [
        ("nvfuser-2.1.2-fallback-run", "error", 1),
        ("nvfuser-2.1.2-fallback-run", "FD302", 1),
        ("nvfuser-2.1.2-fallback-run", "fd302", 1),
        ("nvfuser-2.1.2-fallback-run", "FD301", 0),
        ("nvfuser-2.1.2-rejects-full", "error", 0),
        ("nvfuser-2.1.2-rejects-full", "warning", 0),
        ("nvfuser-2.1.2-rejects-full", "note", 1),
        (
            "nvfuser-1.13.1-primitive-layer-norm",
            "warning",
            0,
        ),  # nothing is advised: notes
        ("nvfuser-2.1.2-other-gradients", "warning", 0),
        ("nvfuser-2.1.2-other-gradients", "note", 1),
        ("nvfuser-2.1.2-ordered-layer-norm", "warning", 0),
        ("nvfuser-2.1.2-ordered-layer-norm", "FD403", 1),
        ("nvfuser-2.1.2-perf-debug-verbose", "warning", 0),
        ("nvfuser-2.1.2-perf-debug-verbose", "FD906", 1),
    ],
)
def test_fail_on(log: str, fail_on: str, status: int, fusiondoc: Run) -> None:
    assert (
        fusiondoc("parse", LOGS / f"{log}.log.xz", "--fail-on", fail_on).returncode
        == status
    )


def test_fail_on_something_unknown(fusiondoc: Run) -> None:
    done = fusiondoc("parse", CLEAN, "--fail-on", "FD20")
    assert (
        done.returncode == 2
        and "Did you mean" in done.stderr
        and "FD20" in done.stderr
    )


def test_an_unknown_command_and_an_unknown_option(fusiondoc: Run) -> None:
    done = fusiondoc("pares", CLEAN)
    assert done.returncode == 2 and "parse" in done.stderr
    done = fusiondoc("parse", CLEAN, "--formt", "json")
    assert done.returncode == 2 and "--format" in done.stderr


def test_piped_text_has_no_colours_and_keeps_to_the_width(fusiondoc: Run) -> None:
    for width in ("80", "120"):
        done = fusiondoc(
            "parse",
            LOGS / "nvfuser-2.1.2-fallback-compile.log.xz",
            env={"COLUMNS": width},
        )
        assert "\x1b" not in done.stdout
        to_copy = re.compile(r" +(\$ |fusiondoc |PYTORCH_\w+=)")
        assert max(
            len(line) for line in done.stdout.split("\n") if not to_copy.match(line)
        ) <= int(width)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m fusiondoc parse {CLEAN} | head -n 1"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, shell=True, env=env, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def imported(*args: str) -> set:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "fusiondoc", *args],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if "import time:" in line
    }


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("parse", str(CLEAN)),
        ("parse", str(CLEAN), "-f", "json"),
        ("parse", "--help"),
    ],
)
def test_torch_is_never_imported_here(args: tuple) -> None:
    pytest.importorskip("torch")
    modules = imported(*args)
    assert ("fusiondoc.cli" in modules) == (args != ("--version",))
    assert not {m for m in modules if m == "torch" or m.startswith("torch.")}
    if args[0] != "parse":
        assert not {
            m
            for m in modules
            if m.startswith(
                ("rich", "yaml", "fusiondoc.parsers", "fusiondoc.model.report")
            )
        }


def test_streams_that_are_closed(fusiondoc_process: Run, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("kernel1 run in 0.5 ms, achieved: 4 GB/s\n")
    no_input = fusiondoc_process("parse", "-", preexec_fn=lambda: os.close(0))
    assert no_input.returncode == 2
    assert "the standard input is closed" in no_input.stderr
    no_output = fusiondoc_process(
        "parse", "train.log", preexec_fn=lambda: os.close(1)
    )
    assert (
        no_output.returncode == 2
        and "standard output is closed" in no_output.stderr
    )


@pytest.mark.parametrize(
    "request_", ["{", "[]", '{"schema": "fusiondoc.capture/1", "target": 5}']
)
def test_a_capture_whose_request_is_broken(
    request_: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "request.json").write_text(request_)
    (tmp_path / "capture" / "log").touch()
    done = fusiondoc("parse", "capture")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "\nnext: " in done.stderr


def test_links_and_names_that_lead_nowhere(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "a" * 5000):
        done = fusiondoc("parse", name)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and "\nnext: " in done.stderr
