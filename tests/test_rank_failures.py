"""Ranks that fail: whose error it is, behind whatever stands before its lines, and
what is not its cause."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES
from running import python, write

from fusiondoc.api import parse
from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.lines.failures import without_rank
from fusiondoc.runner.capped_log import FusionLines
from fusiondoc.views.formatting import verdict
from fusiondoc.workflows.load import report_from

PROGRAM = """
import os, signal, sys
import torch
import torch.distributed as dist

torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)

@torch.jit.script
def block(x, y):
    return torch.relu(x * y + x) * 2.0

dist.init_process_group("gloo")
x = torch.rand(8, 8)
for step in range(6):
    out = block(x, x)
    if step == 4 and dist.get_rank() == 1:
        if sys.argv[1] == "raise":
            x.view(3, 7)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
"""
ERROR = "RuntimeError: shape '[3, 7]' is invalid for input of size 64"


def launch(folder: Path, how: str) -> Path:
    """A folder with ``tee.log``, which torch's launcher printed, and ``files``, its
    files of each rank."""
    program = write(folder, "train.py", PROGRAM)
    options = [
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "--tee=3",
    ]
    level = ">partition:tensorexpr_fuser:profiling_graph_executor_impl"
    environment = {**os.environ, "PYTORCH_JIT_LOG_LEVEL": level}
    done = python(
        *options, f"--log-dir={folder / 'files'}", program, how, env=environment
    )
    assert done.returncode == 1
    tee = done.stdout.encode()
    (folder / "tee.log").write_bytes(tee)
    # As it is printed without --tee.
    (folder / "plain.log").write_bytes(re.sub(rb"(?m)^\[default\d\]:", b"", tee))
    return folder


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch(tmp_path_factory.mktemp("raised"), "raise")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Once more where the launcher ended rank 0 before that wrote what it lost."""
    for _ in range(3):
        folder = launch(tmp_path_factory.mktemp("killed"), "kill")
        written = [
            path.read_bytes()
            for path in (folder / "files").rglob("*")
            if path.is_file()
        ]
        if any(b"[rank0]: " in text and b"Error" in text for text in written):
            break
    return folder


def of_code(report: Report, code: str) -> list[Finding]:
    return [one for one in report.findings if one.code == code]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["tee.log", "plain.log", "files"])
def test_the_error_of_a_rank_is_found_and_not_that_it_was_lost(
    raised: Path, name: str
) -> None:
    assert b"[rank1]: RuntimeError: shape" in (raised / "tee.log").read_bytes(), (
        "torch tags it"
    )
    assert b"[rank0]: RuntimeError: " in (raised / "tee.log").read_bytes(), (
        "the other one lost it"
    )
    report = report_from([str(raised / name)])
    (found,) = of_code(report, "FD905")
    assert (
        found.severity == "error"
        and found.message == f"The log holds an error of rank 1: {ERROR}"
    )
    assert not of_code(report, "FD303"), (
        "the launcher ended rank 0 with SIGTERM: that is no crash"
    )
    assert report.plan and report.plan_title is None
    if name != "plain.log":
        assert report.ranks is not None
        assert [(row.rank, row.failed) for row in report.ranks.rows] == [
            (0, False),
            (1, True),
        ]
        assert report.ranks.rows[1].ended == f"failed: {ERROR}"


@pytest.mark.torch
def test_the_file_of_one_rank_is_enough(raised: Path, fusiondoc) -> None:
    (file,) = raised.glob("files/*/attempt_0/1/stderr.log")
    done = fusiondoc("parse", file, "--fail-on", "error")
    assert done.returncode == 1 and "Nothing to do" not in done.stdout
    assert ERROR in " ".join(done.stdout.split())


@pytest.mark.torch
@pytest.mark.parametrize("name", ["tee.log", "plain.log"])
def test_a_killed_rank_is_named_and_no_stack_is_spoken_of(
    killed: Path, name: str
) -> None:
    report = report_from([str(killed / name)])
    (died,) = of_code(report, "FD303")
    assert (
        died.message.startswith("Rank 1 died (exitcode : -9 ")
        and "SIGKILL" in died.message
    )
    assert "SIGTERM" not in died.message, "that is rank 0, which the launcher ended"
    assert "stack" not in str(died.advice) and "memory" in str(died.advice)
    assert not of_code(report, "FD905"), "rank 0 only lost it"


@pytest.mark.torch
def test_a_rank_that_is_killed_without_a_word_is_where_to_look(
    killed: Path,
) -> None:
    """Its file just ends, and the launcher's output is not in the folder."""
    report = report_from([str(killed / "files")])
    (found,) = of_code(report, "FD905")
    assert found.message.startswith(
        "The log holds an error of rank 0, which lost another rank: "
    )
    assert str(found.advice).startswith("Find out how rank 1 ended. ")
    assert report.plan[0].change.startswith("Find out how rank 1 ended")
    assert report.ranks is not None and not report.ranks.rows[0].failed


@pytest.mark.torch
def test_ranks_that_have_equally_much_are_said_once(
    raised: Path, fusiondoc
) -> None:
    report = report_from([str(raised / "files")])
    assert (
        verdict(report)
        == "Each of 2 ranks: 4 operators fused into 1 group, none left outside"
    )
    done = fusiondoc("parse", raised / "files", "--format", "json")
    assert done.returncode == 0
    kept = json.loads(done.stdout)
    assert kept["coverage"]["ops_fused"] == 8, (
        "sums over instances, as the contract says"
    )


@pytest.mark.torch
@pytest.mark.parametrize("names", [("files",), ("0", "1")])
def test_advice_names_the_folder_of_the_ranks(
    raised: Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (attempt,) = raised.glob("files/*/attempt_0")
    monkeypatch.chdir(raised if names == ("files",) else attempt)
    files = [f"{rank}/{file}.log" for rank in "01" for file in ("stdout", "stderr")]
    report = report_from(names if names == ("files",) else files)
    assert report.ranks is not None, (
        "the folders of the launcher may be above the current one"
    )
    folder = "files" if names == ("files",) else "."
    assert {one.command for one in report.plan} == {
        f"fusiondoc compare {folder} new"
    }


def test_several_files_in_no_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third log stands beside them, so their folder is not what was read."""
    monkeypatch.chdir(tmp_path)
    for name in ("rank0.log", "rank1.log", "other.log"):
        Path(name).write_bytes(log_of() + TRACEBACK)
    report = report_from(["rank0.log", "rank1.log"])
    assert {one.command for one in report.plan} == {"fusiondoc compare old new"}


def test_ranks_that_differ_are_summed(tmp_path: Path) -> None:
    for name, text in (
        ("rank0.log", log_of()),
        ("rank1.log", b"nothing about fusion\n"),
    ):
        (tmp_path / name).write_bytes(text)
    assert "ach of" not in verdict(report_from([str(tmp_path)]))


# -- what stands before the lines ---------------------------------------------------------------------------

TRACEBACK = (
    b"Traceback (most recent call last):\n"
    b'  File "train.py", line 15, in <module>\n'
    b"    x.view(3, 7)\n" + ERROR.encode() + b"\n"
)
PREFIXES = {
    "nothing": b"",
    "torchrun --tee": b"[default1]:",
    "mpirun": b"[1,1]<stderr>:",
    "mpirun 5": b"[prterun-node7-4242@1,1]<stderr>:",
    "srun": b"1: ",
    "ranks": b"[rank1]: ",
    "kubectl": b"[pod/trainer-1/main] ",
    "docker compose": b"trainer-1  | ",
    "a time": b"2026-01-02T03:04:05.678901234Z stderr F ",
    "a time and a rank": b"2026-01-02 03:04:05,678 rank 1: ",
}
FORMS = {
    "nothing": TRACEBACK,
    "torch's tag": b"".join(
        b"[rank1]: " + line for line in TRACEBACK.splitlines(keepends=True)
    ),
    "a shell": b"bash: line 1:  4711 Segmentation fault      (core dumped) python train.py\n",
}


def log_of() -> bytes:
    return raw_log.read(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")


def behind(prefix: bytes, text: bytes) -> bytes:
    return b"".join(prefix + line for line in text.splitlines(keepends=True))


def failures(log: bytes, path: Path) -> list[tuple[str, str, str, list[int]]]:
    """Without the rank, which a prefix adds."""
    path.write_bytes(log)
    found = [
        one
        for one in parse(path).findings
        if one.code in ("FD303", "FD905", "FD307")
    ]
    return [
        (
            one.code,
            one.severity,
            re.sub(r" of rank 1|(?<=\A)(?:Rank 1|The process)", "", one.message),
            [line.line for line in one.evidence],
        )
        for one in found
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_failure_is_the_same_behind_every_prefix(
    prefix: str, form: str, tmp_path: Path
) -> None:
    whole = log_of()
    plain = failures(
        whole + FORMS["nothing" if form == "torch's tag" else form],
        tmp_path / "run.log",
    )
    assert plain and plain[0][1] == "error"
    told = failures(
        behind(PREFIXES[prefix], whole + FORMS[form]), tmp_path / "run.log"
    )
    assert told == plain


@pytest.mark.parametrize("form", ["nothing", "torch's tag"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_learnt_from_the_traceback_alone(
    prefix: str, form: str, tmp_path: Path
) -> None:
    """A rank that fails as it starts leaves no line of torch's log."""
    log = behind(PREFIXES[prefix], b"starting\n" + FORMS[form])
    ((code, severity, message, lines),) = failures(log, tmp_path / "run.log")
    assert (code, severity, message, lines) == (
        "FD905",
        "error",
        f"The log holds an error: {ERROR}",
        [5],
    )


def test_tracebacks_of_two_ranks_between_one_another(tmp_path: Path) -> None:
    lines = TRACEBACK.replace(b"[3, 7]", b"[5, 7]").splitlines(keepends=True)
    mixed = [
        b"[rank%d]: " % rank + line
        for pair in zip(TRACEBACK.splitlines(keepends=True), lines)
        for rank, line in enumerate(pair)
    ]
    path = tmp_path / "run.log"
    path.write_bytes(log_of() + b"".join(mixed))
    said = [one.message for one in of_code(parse(path), "FD905")]
    assert said == [
        f"The log holds an error of rank 0: {ERROR}",
        f"The log holds an error of rank 1: {ERROR.replace('[3, 7]', '[5, 7]')}",
    ]


def test_the_same_error_of_all_ranks_is_one(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    tagged = [behind(b"[rank%d]: " % rank, TRACEBACK) for rank in range(8)]
    path.write_bytes(log_of() + b"".join(tagged))
    (found,) = of_code(parse(path), "FD905")
    assert (
        found.message == f"The log holds an error of ranks 0-7: {ERROR}"
        and len(found.evidence) == 8
    )


SUMMARY = b"""Traceback (most recent call last):
  File "torch/distributed/run.py", line 905, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-02_03:04:05
  host      : node7
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 11)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 11
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : node7
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 12)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_the_launcher_names_the_rank_that_failed_where_nothing_else_does(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_of() + SUMMARY)
    report = parse(path)
    (found,) = of_code(report, "FD905")
    assert "rank 3 ended with exit status 1" in found.message and not of_code(
        report, "FD303"
    )
    of_rank_1 = SUMMARY.replace(b"rank      : 3", b"rank      : 1")
    path.write_bytes(log_of() + FORMS["torch's tag"] + of_rank_1)
    (found,) = of_code(parse(path), "FD905")
    assert found.message == f"The log holds an error of rank 1: {ERROR}"


def test_a_summary_that_is_cut_off_still_tells_of_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_of() + SUMMARY[: SUMMARY.index(b"Root Cause")])
    (died,) = of_code(parse(path), "FD303")
    assert died.message.startswith("Rank 0 died (exitcode : -15 ")


STACK = b"""Fatal Python error: Segmentation fault

Current thread 0x00007f3a (most recent call first):
  File "train.py", line 17 in <module>
"""


def test_a_stack_is_spoken_of_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    head = log_of() + b"step 4\n"
    path.write_bytes(head + STACK)
    (died,) = of_code(parse(path), "FD303")
    line = (head + STACK).split(b"\n").index(
        b"Current thread 0x00007f3a (most recent call first):"
    ) + 1
    assert f"run.log:{line}." in str(died.advice)
    path.write_bytes(head + STACK.split(b"\n")[0] + b"\n")
    (died,) = of_code(parse(path), "FD303")
    assert "holds no stack" in str(died.advice)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        (
            b"bash: line 1:  4711 Killed                  python train.py",
            "The process",
        ),
        (b"srun: error: node1: task 3: Killed", "Rank 3"),
        (
            b"mpirun noticed that process rank 5 with PID 0 on node n7 exited on signal 9 (Killed).",
            "Rank 5",
        ),
        (
            b"Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
            "The process",
        ),
    ],
)
def test_words_of_a_killed_process(words: bytes, rank: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_of() + b"step 4\n" + words + b"\n")
    (died,) = of_code(parse(path), "FD303")
    assert died.message.startswith(f"{rank} died (") and "memory" in str(
        died.advice
    )
    assert "stack" not in str(died.advice)


def test_a_log_that_is_kept_in_part_keeps_the_traceback_of_a_rank() -> None:
    lines = FusionLines(b"")
    assert all(lines.about(line) for line in FORMS["torch's tag"].splitlines())
    assert not lines.about(b"[rank1]: step 4")
    assert without_rank(b"[rank12]:[E123 x.cpp:1] y") == (12, b"[E123 x.cpp:1] y")
