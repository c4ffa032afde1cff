"""What the end of a run means for the user: the error, its status, the next
step."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run

from fusiondoc.captures.ending import Result, failure_of
from fusiondoc.captures.probe_records import Done, Failure, Loaded, ProbeRecords
from fusiondoc.diagnosis.diagnose import diagnose
from fusiondoc.diagnosis.rules import Context
from fusiondoc.parsers.read import read_logs

DONE = ProbeRecords(done=Done(1.0, 0.5))
FAILED = ProbeRecords(
    error=Failure("forward", "ValueError", "boo", "ValueError: boo\n"),
    done=Done(1.0, 0.5),
)
MODEL, SCRIPT = (
    ProbeRecords(target=Loaded("model")),
    ProbeRecords(target=Loaded("script")),
)


@pytest.mark.parametrize(
    ("result", "records", "message", "hint"),
    [
        (
            Result(None, "SIGTERM", timed_out=True),
            MODEL,
            "m.py did not end in 9 s and was",
            "--timeout gives",
        ),
        (
            Result(None, "SIGTERM", timed_out=True),
            DONE,
            "m.py completed all passes, but its process did not end in 9 s",
            "A thread that is no daemon, or an atexit function, goes on",
        ),
        (
            Result(None, "SIGTERM", timed_out=True),
            FAILED,
            "m.py failed in the forward pass\nValueError: boo",
            "After that its process did not end in 9 s: A thread",
        ),
        (
            Result(None, "SIGTERM", timed_out=True, stopped="SIGSTOP"),
            MODEL,
            "m.py was stopped by SIGSTOP and did not go on in 9 s, so it was ended",
            "It stops itself",
        ),
        (
            Result(None, "SIGABRT"),
            DONE,
            "m.py completed all passes, and its process died",
            "is whole",
        ),
        (
            Result(None, "SIGKILL"),
            MODEL,
            "m.py died of SIGKILL",
            "when memory runs out",
        ),
        (
            Result(None, "SIGXCPU"),
            MODEL,
            "m.py died of SIGXCPU",
            "limit of CPU time",
        ),
        (Result(None, "SIGSEGV"), MODEL, "m.py died of SIGSEGV", "Python's stack"),
        (
            Result(0),
            MODEL,
            "m.py ended with exit status 0 before all passes",
            "whole output",
        ),
        (
            Result(5),
            SCRIPT,
            "m.py ended with exit status 5 before all passes",
            "whole output",
        ),
    ],
)
def test_each_end_has_its_message_and_next_step(
    result: Result, records: ProbeRecords, message: str, hint: str, tmp_path: Path
) -> None:
    failed = failure_of(result, records, "m.py", 9.0, tmp_path / "log")
    assert failed is not None and failed.exit_code == 3
    assert failed.message.startswith(message)
    assert hint in str(failed.hint)


def test_the_last_lines_of_a_program_are_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    jit = "[DUMP profiling_graph_executor_impl.cpp:695]   return (%175)\n"
    log.write_text("no such file\n" + 20 * jit + "[fusiondoc] end\n")
    failed = failure_of(Result(5), SCRIPT, "m.py", 9.0, log)
    assert failed is not None and failed.message.endswith(
        "all passes were done\nno such file"
    )


def test_a_script_may_end_itself(tmp_path: Path) -> None:
    assert failure_of(Result(0), SCRIPT, "m.py", 9.0, tmp_path / "log") is None


def test_records_that_could_not_be_written_are_named(tmp_path: Path) -> None:
    """A limit that the program set (RLIMIT_FSIZE): all passes ran, and nothing
    tells of them."""
    log = tmp_path / "log"
    log.write_text(
        "fusiondoc: no more records can be written: [Errno 27] File too large\nIR of a graph\n"
    )
    failed = failure_of(Result(0), MODEL, "m.py", 9.0, log)
    assert (
        failed is not None
        and "could not be written: [Errno 27] File too large" in failed.message
    )
    assert "RLIMIT_FSIZE" in str(failed.hint)


def test_a_program_that_ended_itself_is_not_one_without_torchscript() -> None:
    report, observed = read_logs([])
    context = Context(observed, result=Result(0), ended_early=True)
    found = {one.code: one.message for one in diagnose(report, context).findings}
    assert "FD901" not in found
    assert found["FD905"].startswith(
        "The process ended with exit status 0, and its records do not state"
    )


@pytest.mark.torch
def test_an_error_that_came_through_c_plus_plus_names_no_frame_of_the_probe(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\n\n@torch.jit.ignore\ndef check(x: torch.Tensor) -> None:\n"
        "    raise RuntimeError('boom')\n\n\n@torch.jit.script\ndef model(x):\n    check(x)\n"
        "    return x + 1\n\n\ninputs = (torch.ones(2),)\n"
    )
    done = fusiondoc("diagnose", "model.py")
    assert done.returncode == 3 and "boom\n\nAt:\n" in done.stderr, done.stderr
    assert (
        "model.py(6): check" in done.stderr and "fusiondoc/probe" not in done.stderr
    )


def test_a_process_that_dies_as_it_ends_died_at_no_group() -> None:
    report, observed = read_logs([])
    told = {}
    for finished in (False, True):
        context = Context(
            observed, result=Result(None, "SIGABRT"), finished=finished
        )
        found = {one.code: one for one in diagnose(report, context).findings}
        told[finished] = found["FD303"].severity, found["FD303"].message
    assert told[False] == ("error", "The process died of SIGABRT, before any group")
    assert told[True] == (
        "note",
        "The process died of SIGABRT as it ended, after all passes",
    )
