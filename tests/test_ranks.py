"""Several processes of one run: launched, read from their files or from one log,
and compared."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from command_line import ROOT, Run
from made_log import large_log
from running import write
from thorough import every

import fusiondoc as api
from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import where_it_was
from fusiondoc.diagnosis import ranks_compared
from fusiondoc.model.report import Report
from fusiondoc.model.runs import RankDifference, Ranks, rank_names, rank_numbers
from fusiondoc.parsers.lines.json_lines import text_field
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.outer_prefix import (
    MARKER,
    SAMPLE,
    OuterPrefix,
    sample_of,
)
from fusiondoc.parsers.read import Reading
from fusiondoc.probe import rank_process
from fusiondoc.views.report_ranks import rank_sentences, ranks_merged
from fusiondoc.workflows import with_ranks
from fusiondoc.workflows.follow import LiveView, follow
from fusiondoc.workflows.load import report_from

LOGS = ROOT / "fixtures" / "logs"

PROGRAM = """
import os, signal, sys, time
import torch
import torch.distributed as dist

@torch.jit.script
def block(x, y):
    return torch.relu(x * 0.5 + y) * y

@torch.jit.script
def only_first(x):
    return torch.tanh(x * 2.0 + 1.0) * x

dist.init_process_group("gloo")
rank = dist.get_rank()
weight = torch.nn.Parameter(torch.ones(4, 8))
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(6):
    optimizer.zero_grad()
    block(weight, torch.randn(4, 8)).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    if rank == 1 and step == 4 and sys.argv[1:] == ["die"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and step == 4 and sys.argv[1:] == ["hang"]:
        time.sleep(1000)
if rank == 0:
    with torch.no_grad():
        for _ in range(4):
            only_first(torch.randn(8))
"""


def ranks(report: Report) -> Ranks:
    assert report.ranks is not None
    return report.ranks


def of_kind(report: Report, what: str) -> list[RankDifference]:
    return [one for one in ranks(report).differences if one.what == what]


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes that all-reduce over gloo, with NNC really fusing; the folder
    of the run."""
    from command_line import runs_in_this_process

    folder = tmp_path_factory.mktemp("launched")
    program = write(folder, "train.py", PROGRAM)
    run = runs_in_this_process(folder, folder / "cache")
    done = run(
        "diagnose",
        "--nproc-per-node",
        2,
        "--script",
        program,
        "--fuser",
        "nnc",
        "-o",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.torch
def test_two_ranks_of_a_program_are_launched_and_compared(launched: Path) -> None:
    report = json.loads((launched / "r.json").read_text())
    assert (
        report["ranks"]["known_by"] == "launcher"
        and report["ranks"]["expected"] == 2
    )
    assert {group["rank"] for group in report["groups"]} == {0, 1}
    assert all(group["kind"] == "TensorExprGroup" for group in report["groups"])
    shared = [one["ranks"] for one in report["ranks"]["groups"]]
    assert shared.count([0, 1]) >= 2, "forward and backward of the block"
    alone = [
        one for one in report["ranks"]["differences"] if one["what"] == "group"
    ]
    assert (
        len(alone) == 1 and alone[0]["ranks"] == [0] and "tanh" in alone[0]["text"]
    )
    assert "no plan of rank 1" in alone[0]["why"]
    assert report["ranks"]["slowest_step"]["ms"] > 0
    assert [row["ended"] for row in report["ranks"]["rows"]] == [None, None]
    severities = [
        one["severity"] for one in report["findings"] if one["code"] == "FD911"
    ]
    assert severities == ["note"], "only rank 0 runs it: that may be meant"
    assert not any("FD911" in one["codes"] for one in report["plan"])
    commands = [one["command"] for one in report["plan"] if one["command"]]
    assert all("--nproc-per-node=2" in one for one in commands if "diagnose" in one)


@pytest.mark.torch
def test_the_capture_of_a_launched_run_gives_the_report_again(
    launched: Path, fusiondoc: Run
) -> None:
    done = fusiondoc("parse", cwd=launched)
    assert done.returncode == 0
    assert "2 ranks, started by torch.distributed.run" in done.stdout
    assert done.stdout.count("TensorExprGroup") == len(
        json.loads((launched / "r.json").read_text())["ranks"]["groups"]
    )
    assert "ranks 0-1" in done.stdout
    for name in ("r.md", "r.html"):
        assert (
            fusiondoc("parse", "-o", launched / name, cwd=launched).returncode == 0
        )
        assert "is on rank 0 and not on rank 1" in (launched / name).read_text()


def test_what_one_rank_alone_computes_wrong_is_found(tmp_path: Path) -> None:
    """The results of rank 0 stood for those of all."""
    with tarfile.open(
        ROOT / "fixtures/captures/two-gpus-ddp-nvfuser-2.1.2.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    capture = next(tmp_path.rglob("ranks")).parent
    for rank, off in enumerate((1e-8, 0.5)):
        row = {
            **{
                "phase": "forward",
                "what": "output 0",
                "same": off < 1e-5,
                "max_abs": off,
                "max_rel": off,
            },
            **{
                "tolerance": 1e-5,
                "dtype_same": True,
                "strides_same": True,
                "by": "value",
                "detail": None,
            },
        }
        with (capture / "ranks" / str(rank) / "records.jsonl").open("a") as records:
            record = {
                "record": "verify",
                "iteration": 1,
                "inputs": 0,
                "random": [],
                "results": [row],
            }
            records.write(json.dumps(record) + "\n")
    report = api.parse(capture)
    assert [(row.same, row.max_rel, row.detail) for row in report.verification] == [
        (False, 0.5, "on rank 1 alone")
    ]
    assert any(
        one.code == "FD501" and "on rank 1 alone" in one.message
        for one in report.findings
    )


@pytest.mark.torch
def test_a_rank_that_dies_or_leaves_nothing_is_told(
    launched: Path, tmp_path: Path, fusiondoc: Run
) -> None:
    capture = next((launched / ".fusiondoc").glob("2*"))
    shutil.copytree(capture, tmp_path / "c")
    second = tmp_path / "c" / "ranks" / "1"
    result = json.loads((second / "result.json").read_text())
    (second / "result.json").write_text(
        json.dumps({**result, "exit_status": None, "signal": "SIGKILL"})
    )
    before_its_end = [
        line
        for line in (second / "records.jsonl").read_text().splitlines()
        if '"record": "done"' not in line
    ]
    (second / "records.jsonl").write_text("\n".join(before_its_end) + "\n")
    first = tmp_path / "c" / "ranks" / "0"
    (first / "result.json").write_text(
        json.dumps({**result, "exit_status": None, "signal": "SIGTERM"})
    )
    with (first / "records.jsonl").open("a") as records:
        records.write('{"record": "rank", "asked": "SIGTERM", "ended_at": 1.0}\n')
        records.write('{"record": "environment", "torch": "2.0.1"}\n')
    report = api.parse(tmp_path / "c")
    assert [one.ranks for one in of_kind(report, "ended")] == [(1,)]
    assert ranks(report).rows[0].ended == "was ended by the launcher (SIGTERM)"
    assert len(of_kind(report, "torch")) == 2
    failed = Capture(tmp_path / "c").failure()
    assert failed is not None and "on rank 1 died of SIGKILL" in failed.message
    assert any(
        "SIGKILL" in one.message
        for one in report.findings
        if one.severity == "error"
    )
    shutil.rmtree(first)
    report = api.parse(tmp_path / "c")
    assert ranks(report).missing == (0,) and of_kind(report, "missing")[
        0
    ].ranks == (0,)


@pytest.mark.torch
def test_a_rank_without_groups_is_told_with_the_reason(
    launched: Path, tmp_path: Path
) -> None:
    capture = next((launched / ".fusiondoc").glob("2*"))
    shutil.copytree(capture, tmp_path / "c")
    log = tmp_path / "c" / "ranks" / "1" / "log"
    log.write_bytes(b"loaded\n")
    report = api.parse(tmp_path / "c")
    assert [(one.ranks, one.why) for one in of_kind(report, "no groups")] == [
        ((1,), "its log holds no plan")
    ]
    assert not of_kind(report, "group"), "said once, not for every group"


@pytest.mark.torch
@pytest.mark.nightly
def test_ranks_that_die_or_hang(tmp_path: Path, fusiondoc: Run) -> None:
    program = write(tmp_path, "train.py", PROGRAM)
    run = ("diagnose", "--nproc-per-node", 2, "--script", program, "--fuser", "nnc")
    died = fusiondoc(*run, "--", "die")
    assert (
        died.returncode == 3 and "train.py on rank 1 died of SIGKILL" in died.stderr
    )
    assert "was ended by" in died.stdout
    hung = fusiondoc(*run, "--timeout", 60, "--", "hang")
    assert (
        hung.returncode == 3
        and "rank 1 was at" in hung.stderr
        and "train.py:29" in hung.stderr
    )


@pytest.mark.torch
@pytest.mark.nightly
def test_two_machines_with_folders_of_their_own(tmp_path: Path) -> None:
    """Two launchers that meet: each keeps a capture of its own ranks, and both are
    read together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = (
            "--master-addr",
            "127.0.0.1",
            "--master-port",
            str(free.getsockname()[1]),
        )
    running = []
    for node in ("0", "1"):
        folder = tmp_path / f"machine{node}"
        folder.mkdir()
        write(folder, "train.py", PROGRAM)
        command = [
            sys.executable,
            "-m",
            "fusiondoc",
            "diagnose",
            "--nnodes",
            "2",
            "--node-rank",
            node,
            *meet,
        ]
        command += [
            "--nproc-per-node",
            "1",
            "--script",
            "train.py",
            "--fuser",
            "nnc",
            "-o",
            "r.json",
        ]
        environment = {
            **os.environ,
            "FUSIONDOC_CACHE": str(folder / "cache"),
            "PYTHONPATH": str(ROOT),
        }
        running.append(subprocess.Popen(command, cwd=folder, env=environment))
    assert [one.wait(timeout=120) for one in running] == [0, 0]
    alone = json.loads((tmp_path / "machine1" / "r.json").read_text())["ranks"]
    assert (alone["expected"], alone["missing"]) == (2, [0]) and [
        row["rank"] for row in alone["rows"]
    ] == [1]
    first, second = (
        next((tmp_path / f"machine{node}" / ".fusiondoc").glob("2*"))
        for node in (0, 1)
    )
    both = ranks(api.parse([first, second]))
    assert (
        both.expected == 2
        and not both.missing
        and [row.rank for row in both.rows] == [0, 1]
    )
    assert [one.ranks for one in both.groups].count((0, 1)) == 2, (
        "forward and backward of the block"
    )


def test_wrong_options_of_the_launcher(fusiondoc: Run, tmp_path: Path) -> None:
    program = write(tmp_path, "train.py", PROGRAM)
    for arguments, said in (
        (("--nproc-per-node", "many"), "a number of processes is needed"),
        (("--nnodes", "2"), "--nproc-per-node 2"),
        (("--nproc-per-node", "2", "--time"), "for a run of one process"),
    ):
        done = fusiondoc("diagnose", "--script", program, *arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_the_process_of_a_rank_keeps_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in place of the probe; an attempt before it is kept."""
    start = write(
        tmp_path,
        "start.py",
        "import os, signal, sys\nprint(sys.argv[1], flush=True)\nos.kill(os.getpid(), 9)\n",
    )
    monkeypatch.setattr(rank_process, "START", str(start))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "request.json").write_text("{}")
    for restarts in ("0", "1"):
        for name, value in (
            ("RANK", "3"),
            ("WORLD_SIZE", "4"),
            ("TORCHELASTIC_RESTART_COUNT", restarts),
        ):
            monkeypatch.setitem(os.environ, name, value)
        assert rank_process.main("spec", str(tmp_path)) == 137
    folder = tmp_path / "ranks" / "3"
    assert (
        (folder / "log").read_text()
        == "spec\n"
        == (tmp_path / "ranks" / "3.attempt-0" / "log").read_text()
    )
    assert json.loads((folder / "result.json").read_text())["signal"] == "SIGKILL"
    told = [
        json.loads(line)
        for line in (folder / "records.jsonl").read_text().splitlines()
    ]
    assert (
        told[0]["world_size"] == 4
        and told[0]["restarts"] == 1
        and told[1]["asked"] is None
    )


def test_where_a_process_was_when_a_signal_ended_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "output\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", line 80 in wait\n'
        '  File "/home/me/train.py", line 29 in step\n'
        '  File "/home/me/train.py", line 40 in <module>\n'
    )
    assert where_it_was(log) == "/home/me/train.py:29"
    log.write_text('Traceback\n  File "x.py", line 3, in f\n')
    assert where_it_was(log) is None


def numbers(*names: str) -> list[tuple[str, int | None]]:
    found = with_ranks([LogInput(name, Path(name)) for name in names])
    return [(log.name, log.rank) for log in found]


def test_ranks_by_the_names_of_files() -> None:
    assert [rank for _, rank in numbers("l/rank0.log", "l/rank1.log")] == [0, 1]
    assert [
        rank
        for _, rank in numbers(
            "l/rank.0/stdout", "l/rank.1/stdout", "l/rank.1/stderr"
        )
    ] == [
        0,
        1,
        1,
    ]
    assert [rank for _, rank in numbers("c/ranks/0/log", "c/ranks/12/log")] == [
        0,
        12,
    ]
    for alone in (
        ("rank0.log",),
        ("train.1.log", "train.2.log"),
        ("franks.log", "crank1a.log"),
    ):
        assert {rank for _, rank in numbers(*alone)} == {None}, alone


def test_files_of_torchs_launcher_keep_the_last_attempt_and_count_machines_on() -> (
    None
):
    one = [
        f"l/a/attempt_{attempt}/{rank}/stderr.log"
        for attempt in (0, 1)
        for rank in (0, 1)
    ]
    assert numbers(*one) == [(one[2], 0), (one[3], 1)]
    two = [
        f"l/{node}/attempt_0/{rank}/stdout.log" for node in "ab" for rank in (0, 1)
    ]
    assert [rank for _, rank in numbers(*two)] == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of a program with DDP (gloo) on two H100: equal batches, unequal
    ones, one rank killed."""
    folder = tmp_path_factory.mktemp("two_gpus")
    with tarfile.open(
        ROOT / "fixtures/captures/two-gpus-ddp-nvfuser-2.1.2.tar.xz"
    ) as tar:
        tar.extractall(folder)
    return folder


def test_groups_of_two_gpus_are_equal_but_for_the_one_of_the_first_rank(
    two_gpus: Path,
) -> None:
    report = api.parse(two_gpus / "ddp")
    told = ranks(report)
    assert [row.groups for row in told.rows] == [3, 2]
    assert [(len(one.groups), one.ranks) for one in told.groups] == [
        (2, (0, 1))
    ] * 2 + [(1, (0,))]
    (difference,) = of_kind(report, "group")
    assert difference.ranks == (0,) and "tanh" in difference.text
    assert told.slowest_step is not None and told.slowest_kernels
    # The launches of each kernel, counted by a plain search of each rank's log.
    for rank in (0, 1):
        log = (two_gpus / "ddp" / "ranks" / str(rank) / "log").read_text()
        mine = [kernel.launches for kernel in report.kernels if kernel.rank == rank]
        assert sum(number or 0 for number in mine) == log.count(
            "Launch Parameters: "
        )


def test_unequal_batches_are_why_groups_differ_on_two_gpus(two_gpus: Path) -> None:
    report = api.parse(two_gpus / "uneven")
    assert not [one for one in ranks(report).groups if len(one.ranks) > 1]
    assert (
        sum(
            "Float(2048, 1024" in (one.why or "")
            for one in of_kind(report, "group")
        )
        >= 2
    )
    (found,) = [one for one in report.findings if one.code == "FD911"]
    assert "batches of one size" in (found.advice or "")


def test_the_rank_that_was_killed_comes_before_the_one_that_lost_it(
    two_gpus: Path,
) -> None:
    report = api.parse(two_gpus / "killed")
    assert [one.ranks for one in of_kind(report, "ended")] == [(1,), (0,)]
    (found,) = [one for one in report.findings if one.code == "FD911"]
    assert "rank 1 died of SIGKILL" in found.message


def test_a_folder_with_a_log_a_rank_is_one_report(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        groups = 3 if rank != 1 else 2
        text = large_log(groups=groups, loose=2).replace("cuda:0", f"cuda:{rank}")
        (tmp_path / f"rank{rank}.log").write_text(text)
    report = api.parse(tmp_path)
    told = ranks(report)
    assert told.known_by == "files" and told.missing == (2,)
    assert [one.ranks for one in told.groups] == [(0, 1, 3), (0, 1, 3), (0, 3)]
    (third,) = of_kind(report, "group")
    assert (
        third.ranks == (0, 3)
        and "not on rank 1" in third.text
        and not third.other_types
    )
    shown = ranks_merged(report)
    assert len(shown.groups) == 3 and len(report.groups) == 8
    assert len(shown.unfused) < len(report.unfused)


def test_other_shapes_on_one_rank_are_why_a_group_differs(tmp_path: Path) -> None:
    text = large_log(groups=1, loose=1)
    log = tmp_path / "both.log"
    other = text.replace("64, 256", "17, 256")
    lines = [
        f"[rank{rank}]: {line}"
        for rank, log in enumerate((text, other))
        for line in log.split("\n")
        if line
    ]
    log.write_text("\n".join(lines))
    report = api.parse(log)
    assert ranks(report).known_by == "prefixes"
    (group,) = of_kind(report, "group")
    why = group.why or ""
    assert group.other_types and "other types" in why and "Float(17, 256" in why, (
        "said once, from one side"
    )
    assert any("17, 256" in sentence for sentence in rank_sentences(report))
    (found,) = [one for one in report.findings if one.code == "FD911"]
    assert found.severity == "warning" and "batches of one size" in (
        found.advice or ""
    )


TAGS = [
    "[rank{}]:",
    "[default{}]:",
    "{}: ",
    "[1,{}]<stderr>:",
    "[prterun-node7-4242@1,{}]<stdout>: ",
    "node{} | ",
]


@pytest.mark.parametrize("tag", TAGS)
def test_prefixes_of_launchers(tag: str, tmp_path: Path) -> None:
    """torchrun, srun --label, mpirun --tag-output, and one that nobody named."""
    lines = [line for line in large_log(groups=2, loose=1).split("\n") if line]
    (tmp_path / "all.log").write_text(
        "\n".join(tag.format(rank) + line for line in lines for rank in (0, 1))
    )
    report = api.parse(tmp_path / "all.log")
    told = ranks(report)
    assert told.known_by == "prefixes" and [row.rank for row in told.rows] == [0, 1]
    assert [one.ranks for one in told.groups] == [
        (0, 1)
    ] * 2 and not told.differences


@pytest.mark.parametrize("tag", every(2, ["[rank{}]:", "{}: "]))
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(3000, id="one chunk"),
        pytest.param(60_000, id="several chunks", marks=pytest.mark.nightly),
    ],
)
def test_what_ranks_write_before_the_fuser_hides_no_prefix(
    tag: str, before: int, tmp_path: Path
) -> None:
    """Many ranks, each with a hundred lines of NCCL: more than the lines that
    prefixes are learnt from."""
    text = ["node7:42:42 [0] NCCL INFO Channel 01/24 : 0 1 2"] * before
    text += [line for line in large_log(groups=2, loose=1).split("\n") if line]
    (tmp_path / "all.log").write_text(
        "\n".join(tag.format(rank) + line for line in text for rank in (0, 1))
    )
    report = api.parse(tmp_path / "all.log")
    told = ranks(report)
    assert told.known_by == "prefixes" and [row.rank for row in told.rows] == [0, 1]
    assert [set(one.ranks) for one in told.groups] == [
        {0, 1}
    ] * 2 and not told.differences
    assert report.parse.lines == 2 * len(text)


def is_plain(text: bytes) -> bool:
    """Whether enough of torch stands in the text, with nothing before its lines."""
    sample = sample_of(text)
    if sample is None:
        return False
    return (
        text_field(sample, MARKER.search) is None
        and OuterPrefix.learn(sample) is None
    )


def test_a_prefix_that_is_learnt_late_is_of_no_plain_log() -> None:
    """Lines of the program before those of torch tell nothing of the prefix."""
    noise, torch = (
        b"step 1\n" * 5000,
        b"[DUMP graph_fuser.cpp:2503] graph(%x : Tensor):\n" * 3,
    )
    assert is_plain(torch) and is_plain(noise + torch)
    assert not is_plain(noise), (
        "a prefix that nobody knows may come with the first line of torch"
    )
    for tag in (b"[rank0]:", b"3: ", b"[1,0]<stdout>:"):
        tagged = [tag + line for line in (noise + torch).split(b"\n")[:-1]]
        assert not is_plain(b"\n".join((*tagged, b"")))
        assert not is_plain(b"\n".join((*tagged[:5000], b"")))


@pytest.mark.parametrize(
    "tag",
    [
        "{}: [default{}]:",
        "[1,{}]<stdout>:[default{}]:",
        "node{} | 2026-11-23 [default{}]:",
    ],
)
def test_local_numbers_of_machines_in_one_log_are_counted_on(
    tag: str, tmp_path: Path
) -> None:
    """A launcher for each machine under srun or mpirun: rank 0 of each machine is
    another process."""
    lines = [line for line in large_log(groups=2, loose=1).split("\n") if line]
    places = [(machine, local) for machine in (0, 1) for local in (0, 1, 2)]
    text = "\n".join(
        tag.format(*place) + line for line in lines for place in places
    )
    (tmp_path / "all.log").write_text(text)
    told = ranks(api.parse(tmp_path / "all.log"))
    assert told.known_by == "prefixes" and [row.rank for row in told.rows] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    assert [one.ranks for one in told.groups] == [
        (0, 1, 2, 3, 4, 5)
    ] * 2 and not told.differences


def test_formulas_of_gradients_are_no_place_of_the_program(tmp_path: Path) -> None:
    """A group of another function that uses the same formula is not the same one,
    cut otherwise."""
    text = large_log(groups=1, loose=0)
    own = "model.py:"
    assert own in text
    formulas = re.sub(
        r"# model\.py:(\d+)", lambda found: f"# <string>:{int(found[1]) % 2}", text
    )
    more = formulas.replace("aten::mul", "aten::neg")
    assert more != formulas
    (tmp_path / "rank0.log").write_text(formulas)
    (tmp_path / "rank1.log").write_text(more)
    found = of_kind(api.parse(tmp_path), "group")
    assert found and not any(
        "grouped differently" in (one.why or "") for one in found
    )
    assert not any("no plan of rank" in (one.why or "") for one in found)


def test_folders_of_machines_are_no_difference(tmp_path: Path) -> None:
    """A program that each machine has in a folder of its own; not files of one name
    in one program."""
    text = large_log(groups=2, loose=1)
    assert "model.py:" in text
    (tmp_path / "rank0.log").write_text(text)
    (tmp_path / "rank1.log").write_text(
        text.replace("model.py:", "/data/run/model.py:")
    )
    told = ranks(api.parse(tmp_path))
    assert [one.ranks for one in told.groups] == [
        (0, 1)
    ] * 2 and not told.differences
    lines = text.replace("model.py:1", "a/model.py:1")
    assert lines.count("a/model.py:") < lines.count("model.py:")
    (tmp_path / "rank1.log").write_text(lines)
    assert ranks(api.parse(tmp_path)).differences, (
        "a rank has two files of that name"
    )


def test_the_slowest_rank_by_kernel(tmp_path: Path) -> None:
    with lzma.open(LOGS / "nvfuser-2.1.2-ordered-layer-norm.log.xz", "rt") as file:
        text = file.read()
    slow = re.sub(
        r"run in (\d+)\.(\d+) ms",
        lambda found: f"run in {int(found[1]) + 3}.{found[2]} ms",
        text,
    )
    (tmp_path / "rank0.log").write_text(text)
    (tmp_path / "rank1.log").write_text(slow)
    told = ranks(api.parse(tmp_path))
    assert told.slowest_kernels and {one.rank for one in told.slowest_kernels} == {
        1
    }
    assert all(
        one.ratio > 2 and len(one.kernels) == 2 for one in told.slowest_kernels
    )
    assert (told.rows[1].kernel_ms or 0) > (told.rows[0].kernel_ms or 0)


def test_a_log_that_tells_no_process_says_so(tmp_path: Path) -> None:
    """torchrun without --tee: real, two ranks on one GPU. And equal groups of two
    GPUs: a guess."""
    report = api.parse(LOGS / "nvfuser-2.1.2-two-ranks.log.xz")
    assert report.ranks is None
    assert [f.severity for f in report.findings if f.code == "FD911"] == ["note"]
    text = large_log(groups=1, loose=0)
    (tmp_path / "one.log").write_text(text + text.replace("cuda:0", "cuda:1"))
    report = api.parse(tmp_path / "one.log")
    assert ranks(report).known_by == "devices" and "torchrun --tee 3" in (
        ranks(report).note or ""
    )
    assert {group.rank for group in report.groups} == {None}, (
        "never guessed in the rows"
    )


def test_numbers_of_ranks_in_words() -> None:
    assert rank_numbers((3, 0, 1, 2, 7)) == "0-3, 7"
    assert rank_names((5,)) == "rank 5" and rank_names((0, 1)) == "ranks 0-1"


LAUNCH = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid\n"


def torn_apart(launched: bool, cut: bool) -> tuple[str, int]:
    """A log in the middle of a line of which another message begins, and the number
    of that line; ``cut``: and one in which a graph is cut."""
    lines = large_log(groups=2, loose=1).splitlines(keepends=True)
    marked = [
        at
        for at, line in enumerate(lines)
        if line.startswith("[DUMP ") and "aten::" in line
    ]
    half = len(lines[marked[3]]) * 2 // 3
    rest = lines[marked[3]][half:]
    lines[marked[3]] = (
        lines[marked[3]][:half]
        + "[DUMP graph_fuser.cpp:2419] Before Fusion: \n"
        + rest
    )
    if cut:
        lines += [
            "[DUMP graph_fuser.cpp:2419] Before Fusion: \n",
            "[DUMP graph_fuser.cpp:2419] graph(%x : Tensor,\n",
        ]
    return LAUNCH * launched + "".join(lines), marked[3] + 1 + launched


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("launched", [True, False])
def test_lines_that_other_processes_tore_apart_are_told(
    launched: bool, cut: bool, tmp_path: Path
) -> None:
    """Alone such a log may be of threads."""
    text, line = torn_apart(launched, cut)
    (tmp_path / "all.log").write_text(text)
    found = [
        one
        for one in api.parse(tmp_path / "all.log").findings
        if one.code == "FD902"
    ]
    assert len(found) == (launched or cut)
    for one in found:
        assert (
            "t least 1 line is torn apart by other processes" in one.message
        ) is launched
        assert ("cut off" in one.message) is cut
        assert ("--redirects 3" in (one.advice or "")) is launched
        assert [place.line for place in one.evidence] == (
            [line] if launched else []
        )


def test_torn_lines_of_a_log_that_grows_are_told(tmp_path: Path) -> None:
    text, line = torn_apart(True, False)
    log = tmp_path / "all.log"
    log.write_text(text)
    (found,) = (
        one
        for one in follow(log, LiveView("all.log", print), idle=0).findings
        if one.code == "FD902"
    )
    assert [(place.file, place.line) for place in found.evidence] == [
        (str(log), line)
    ]


def test_torn_lines_of_tagged_processes_are_of_none(tmp_path: Path) -> None:
    """Where lines are told apart a second mark in one says nothing of another
    process."""
    text, _ = torn_apart(True, False)
    log = tmp_path / "all.log"
    log.write_text(
        "".join(
            f"[rank{rank}]: {line}\n"
            for line in text.splitlines()
            for rank in (0, 1)
        )
    )
    assert not [
        one
        for one in api.parse(log).findings
        if one.code == "FD902" and "torn" in one.message
    ]


def test_differences_beyond_the_most_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.log").write_text(
            large_log(groups=10, loose=0, source=f"m{rank}.py")
        )
    whole = ranks(api.parse(tmp_path))
    assert (len(whole.differences), whole.differences_left_out) == (20, 0)
    monkeypatch.setattr(ranks_compared, "_MOST_DIFFERENCES", 15)
    report = api.parse(tmp_path)
    told = ranks(report)
    assert (told.differences, told.differences_left_out) == (
        whole.differences[:15],
        5,
    )
    (said,) = (one.message for one in report.findings if one.code == "FD911")
    assert said.endswith("; and 19 more differences")
    assert any(
        "--format json has the first 15" in line for line in rank_sentences(report)
    )


def teed(machine: int, local: int, launch: str = LAUNCH) -> str:
    """What ``torchrun --tee 3 ... 2>&1 | tee`` leaves of so many ranks on one
    machine."""
    texts = [
        large_log(groups=1, loose=1, source=f"m{machine}r{rank}.py")
        for rank in range(local)
    ]
    turns = zip(*(text.splitlines() for text in texts))
    return launch + "".join(
        f"[default{rank}]:{line}\n"
        for turn in turns
        for rank, line in enumerate(turn)
    )


@pytest.mark.parametrize("local", [1, 2])
def test_logs_of_machines_that_each_begin_with_a_launch_are_of_ranks_of_their_own(
    local: int, tmp_path: Path
) -> None:
    for machine in (0, 1):
        (tmp_path / f"{machine}.log").write_text(teed(machine, local))
    report = report_from([str(tmp_path / "0.log"), str(tmp_path / "1.log")])
    of_files = {
        (group.nodes[0].source or "").partition(":")[0]: group.rank
        for group in report.groups
    }
    names = [f"m{machine}r{rank}.py" for machine in (0, 1) for rank in range(local)]
    assert of_files == {name: number for number, name in enumerate(names)}
    assert ranks(report).known_by == "prefixes"
    assert "counted on in the order of the logs" in (ranks(report).note or "")
    assert not [one for one in report.findings if "local ranks" in one.message]


@pytest.mark.parametrize("launch", ["", LAUNCH])
def test_logs_of_which_nothing_tells_the_machine_are_parts_of_one(
    launch: str, tmp_path: Path
) -> None:
    text = teed(0, 2, launch)
    half = text.index("\n", len(text) // 2) + 1
    for number, part in enumerate((text[:half], text[half:])):
        (tmp_path / f"{number}.log").write_text(part)
    (tmp_path / "all.log").write_text(text)
    report = report_from([str(tmp_path / "0.log"), str(tmp_path / "1.log")])
    assert {group.rank for group in report.groups} == {0, 1}
    assert len(report.groups) == len(api.parse(tmp_path / "all.log").groups)
    (said,) = (one for one in report.findings if "same local ranks" in one.message)
    assert (said.code, said.severity) == ("FD911", "note")
    for number in (0, 1):
        path = tmp_path / f"{number}.log"
        path.write_text(path.read_text().replace("[default", "[rank"))
    report = report_from([str(tmp_path / "0.log"), str(tmp_path / "1.log")])
    assert not [one for one in report.findings if "same local ranks" in one.message]


def test_a_prefix_of_all_lines_is_looked_for_in_the_first_lines_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service writes no line of torch for hours: each piece of its log was cut
    into lines once more."""
    looked_at = []
    real = OuterPrefix.of_every_line

    def note(lines: list[bytes]) -> OuterPrefix | None:
        looked_at.append(len(lines))
        return real(lines)

    monkeypatch.setattr(OuterPrefix, "of_every_line", note)
    piece = b"".join(
        b"%d requests served\n%s\n" % (number, b"x" * number)
        for number in range(1500)
    )
    reading = Reading()
    reading.take(LogInput("service.log", None), iter([piece] * 5))
    assert sum(looked_at) == SAMPLE < reading.lines
