"""Logs read in whole runs of lines, and cut into chunks anywhere, give the report
that reading them line by line gives: every row, reason, number and line of
evidence."""

from __future__ import annotations

import lzma
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from thorough import THOROUGH

from fusiondoc.model.report import Report
from fusiondoc.parsers import repeats
from fusiondoc.parsers.jit.message_runs import RunEnds
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import Reading
from fusiondoc.parsers.repeats import Stretch, Tape
from fusiondoc.parsers.stream import Stream
from fusiondoc.workflows.load import report_from

AWKWARD = (
    "logs/nnc-2.11-rejects",
    "logs/nvfuser-2.1.2-two-ranks",
    "logs/nvfuser-2.1.2-control-flow",
    "logs/nvfuser-2.1.2-rejects-full",
    "logs/nvfuser-1.12.1-crash",
    "logs/nvfuser-2.1.2-beside-nnc",
    "logs/nvfuser-2.1.2-fallback-run",
    "dumps/nvfuser-2.1.2-segmented.figures",
    "kernels/onednn-2.13-verbose",
    "foreign/lstm_cells.trace.eval.nvfuser",
)
"""Messages of one line and of blocks, ranks in turn, kernels among messages, graphs
that are cut off."""

FIXTURES = ROOT / "fixtures"
LOGS = (
    sorted(FIXTURES.glob("*/*.log.xz"))
    if THOROUGH
    else [FIXTURES / f"{one}.log.xz" for one in AWKWARD]
)
RECORDINGS = ROOT.parent / "shared" / "recordings"


def read(
    blocks: Iterable[bytes] | None, path: Path | None = None
) -> tuple[Report, Observed]:
    reading = Reading()
    reading.take(LogInput("some.log", path), blocks)
    reading.close()
    report, observed = reading.report(["some.log"])
    # Of messages that nobody reads only whether there are any is of use, and
    # counted are their runs.
    headers = {
        header: 1
        for header in observed.headers
        if header not in ("", "<GRAPH_EXPORT>")
    }
    observed = replace(observed, headers=headers)
    return replace(report, parse=replace(report.parse, seconds=0.0)), observed


def line_by_line(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> tuple[Report, Observed]:
    """As it was read before there were runs: the whole log in one piece, every line
    split off."""
    with monkeypatch.context() as patch:
        patch.setattr(Stream, "feed_text", feed_lines)
        return read([data])


def feed_lines(stream: Stream, text: bytes, pos: int) -> int:
    lines = text[:-1].split(b"\n")
    stream.feed(lines, pos)
    return len(lines)


def pieces(data: bytes, most: int, seed: int) -> list[bytes]:
    sizes = random.Random(seed)
    ends = [
        0,
        *accumulate(
            sizes.randint(1, most) for _ in range(3 * len(data) // most + 1)
        ),
        len(data),
    ]
    return [data[a:b] for a, b in pairwise(ends) if data[a:b]]


@pytest.mark.parametrize(
    "path", LOGS, ids=lambda path: path.name[: -len(".log.xz")]
)
def test_no_row_is_lost_against_the_simple_path(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = lzma.decompress(path.read_bytes())
    simple = line_by_line(data, monkeypatch)
    assert read([data]) == simple
    for most in (300, 9_973, 100_003):
        cut = pieces(data, most, most)
        assert b"".join(cut) == data
        # An outer prefix is learnt from the first chunk.
        assert read([b"".join(cut[:200]), *cut[200:]]) == simple, most


@pytest.mark.skipif(
    not THOROUGH or not RECORDINGS.is_dir(),
    reason="all recordings are read at night",
)
def test_no_row_of_any_recording_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in sorted(RECORDINGS.glob("torch-*/**/*.log")):
        data = path.read_bytes()
        simple = line_by_line(data, monkeypatch)
        assert read([data]) == simple, path.name
        assert read(pieces(data, 20_011, len(data))) == simple, path.name


AGAIN = (
    "nnc-2.11-rejects",
    "nvfuser-2.1.2-control-flow",
    "nvfuser-2.1.2-fallback-run",
    "nvfuser-1.12.1-crash",
)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the stretches that were done again; they are short, as in small
    logs."""
    done: list[int] = []
    real = Tape.do_again

    def do_again(tape: Tape, stretch: Stretch, *place: Any) -> None:
        done.append(stretch.size)
        real(tape, stretch, *place)

    monkeypatch.setattr(Tape, "do_again", do_again)
    monkeypatch.setattr(repeats, "LEAST", 1 << 12)
    return done


@pytest.mark.parametrize("seed", range(20 if THOROUGH else 1))
def test_what_stands_in_a_log_again_is_done_again(
    seed: int, again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs after one another, in any order and also in part, cut into chunks
    anywhere."""
    chance = random.Random(seed)
    one = [
        lzma.decompress((FIXTURES / f"logs/{name}.log.xz").read_bytes())
        for name in AGAIN
    ]
    parts = [
        text if chance.random() < 0.8 else text[chance.randrange(len(text)) :]
        for several in chance.sample(one * 2, 2 * len(one))
        for text in [several] * 3
    ]
    data = b"".join(parts)
    simple = line_by_line(data, monkeypatch)
    assert read([data]) == simple
    assert sum(again) > len(data) // 10
    for most in (60_013, 300_007) if THOROUGH else (150_001,):
        cut = pieces(data, most, seed)
        # An outer prefix is learnt from the first chunk.
        assert read([b"".join(cut[:5]), *cut[5:]]) == simple, most


def test_what_stands_again_where_a_chunk_ends_is_done_again(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stretches that reach behind a chunk were read line by line each time: here
    nearly all of them."""
    some = lzma.decompress(
        (FIXTURES / "logs/nvfuser-2.1.2-control-flow.log.xz").read_bytes()
    )
    log = tmp_path / "some.log"
    log.write_bytes(some * 12)
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.CHUNK_BYTES", 60_013)
    report, observed = read(None, log)
    assert (report, observed) == line_by_line(some * 12, monkeypatch)
    assert sum(again) > len(some) * 7


def test_sources_of_kernels_that_stand_again_are_done_again(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no message between them. Whose the blank lines are depends on what
    follows."""
    code = b"".join(b"  T1[%d] = T0[%d];\n" % (i, i) for i in range(300))
    ran = b"kernel%d run in 0.1 ms, achieved: 100 GB/s\n\n"
    kernels = b"".join(
        FRAME % i + b"\n" + code + b"=" * 38 + b"\n" + ran % i for i in range(1, 6)
    )
    data = (
        (kernels + b"\n\n\n") * 4
        + b"loss 1.5\n\n"
        + kernels
        + b"\n\n"
        + PASS
        + b"Other:\n"
        + kernels
    )
    report, observed = read([data])
    assert (report, observed) == line_by_line(data, monkeypatch)
    assert [kernel.launches for kernel in report.kernels] == [6] * 5
    assert sum(again) > len(kernels) * 2


def some_kernels(seed: int) -> bytes:
    """Sources of kernels, whole, empty, broken off, torn by messages or old, with
    and without text between them; most stand there several times."""
    chance = random.Random(seed)
    end = b"=" * 38 + b"\n"
    codes = [
        b"".join(b"  T1[%d] = T%d[0];\n" % (i, kind) for i in range(40 * kind))
        for kind in range(4)
    ]
    codes += [
        b"\n\n" + codes[1] + b"\n",
        b"// [DEBUG of mine\n" + codes[1],
        b"====\n" + codes[2],
    ]
    message = b"[DUMP graph_fuser.cpp:2604] Other:\n"
    parts = [
        *(FRAME % kind + b"\n" + code + end for kind, code in enumerate(codes)),
        *(FRAME % 1 + b"\n" + code + end for code in codes),
        FRAME % 1 + b"\n" + codes[2],
        FRAME % 1 + b"\n" + codes[1] + message + codes[1] + end,
        FRAME % 1 + b"\n  float x" + message + end,
        b"==== codegen output for kernel: kernel1 ====\n"
        + codes[1]
        + b"=" * 36
        + b"\n",
        b"kernel1 run in 0.1 ms, achieved: 100 GB/s\n",
        *(b"\n", b"\n\n\n", b"loss 1.5\n", message, end, RUNS + b"\n"),
        b"".join(PASS + line + b"\n" for line in GRAPH),
    ]
    return b"".join(chance.choice(parts) for _ in range(60))


@pytest.mark.parametrize("seed", range(300 if THOROUGH else 8))
def test_sources_of_kernels_are_read_as_line_by_line(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = some_kernels(seed)
    simple = line_by_line(data, monkeypatch)
    assert read([data]) == simple
    cut = pieces(data, 2_003, seed)
    assert read([b"".join(cut[:8]), *cut[8:]]) == simple


def test_what_a_pass_says_again_has_its_lines(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a pass that stands in a log again are put down once for all."""
    prefix = b"[UPDATE partition.cpp:236] rejecting node from fusion (node not parsible): "
    names = b"abcdefghij"
    nodes = [
        b"%%%c : Tensor = aten::sort(%%x) # a.py:%d:1\n" % (name, name)
        for name in names
    ]
    graph = (
        b"Before Compilation:\n",
        b"graph(%x : Tensor):\n",
        *(b"  " + node for node in nodes),
    )
    before = (
        PASS
        + b"Before Fusion:\n"
        + PASS
        + b"graph(%x : Tensor):\n"
        + PASS
        + b"  return (%x)\n"
    )
    said = b"".join(prefix + node for node in nodes) * 5
    plan = b"".join(
        PASS[:-2] + b"4] " + line for line in (*graph, b"  return (%a)\n")
    )
    one = before + said + plan
    data = one * 12
    report, observed = read([data])
    assert (report, observed) == line_by_line(data, monkeypatch)
    assert {len(row.evidence) for row in report.unfused} == {5 * 12}
    assert [place.line for place in report.unfused[0].evidence][-1] > one.count(
        b"\n"
    ) * 11
    assert sum(again) > len(data) // 3


def test_what_goes_on_behind_a_stretch_is_not_cut_off_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last time, a section follows where a new message began before."""
    monkeypatch.setattr(repeats, "LEAST", 1 << 12)
    nodes = (
        b"  %%%d : Tensor = aten::relu(%%x.1) # a.py:%d:1" % (i, i)
        for i in range(100)
    )
    graph = (
        b"Before Compilation:",
        b"graph(%x.1 : Tensor):",
        *nodes,
        b"  return (%1)",
    )
    section = (
        b"with prim::CudaFusionGroup_0 = graph(%y : Tensor):",
        b"  %z : Tensor = aten::neg(%y) # a.py:1:1",
        b"  return (%z)",
    )
    message, more = (
        b"".join(PASS + line + b"\n" for line in lines)
        for lines in (graph, section)
    )
    other = b"[DUMP profiling_graph_executor_impl.cpp:620] Other:\n"
    data = (other + message) * 4 + more + other
    report, observed = read([data])
    assert (report, observed) == line_by_line(data, monkeypatch)
    assert observed.plans_cut


PASS = b"[DUMP graph_fuser.cpp:2503] "

RUNS = b"[DEBUG kernel_cache.cpp:818] running GraphCache: 0x55c9b7dd78f0"
FRAME = b"======= Codegen output for kernel: kernel%d ======="
BROKEN_OFF = FRAME % 9, b"__global__ void kernel9() {"
NEXT_ONE = FRAME % 1, b"__global__ void kernel1() {", b"}", b"=" * 38
GRAPH = (
    b"Before Compilation: ",
    b"graph(%x.1 : Tensor):",
    b"  %3 : Tensor = aten::relu(%x.1) # a.py:3:1",
    b"  return (%3)",
)


@pytest.mark.parametrize("glued", [b"", b"  float x"])
def test_messages_between_a_frame_cut_off_and_the_next_are_read(
    glued: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process died while it printed a kernel, and the next log stands behind it:
    up to its first kernel its messages were taken for code of the old one, all of
    them line by line, and the last one in runs."""
    graph = [PASS + line for line in GRAPH]
    lines = *BROKEN_OFF, glued + graph[0], *graph[1:], RUNS, *NEXT_ONE, b""
    data = b"\n".join(lines)
    report, observed = read([data])
    assert (report, observed) == line_by_line(data, monkeypatch)
    assert [row.op for row in report.unfused] == ["aten::relu"]
    assert observed.release == "2.0"
    assert observed.disordered
    assert (report.parse.truncated, report.parse.recognised) == (1, len(lines) - 1)
    cut = data.index(RUNS)
    for at in (cut, cut + len(RUNS) + 1):
        assert read([data[:at], data[at:]]) == (report, observed)


def test_a_crash_in_a_frame_with_messages_in_it_has_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = b"Segmentation fault (core dumped)"
    data = b"\n".join((*BROKEN_OFF, RUNS, b"}", said, RUNS, b""))
    report, observed = read([data])
    assert (report, observed) == line_by_line(data, monkeypatch)
    assert observed.crash is not None
    assert observed.crash.line.line == 5


@pytest.mark.parametrize(
    "others", [b"", b"x\n", PASS[:-2] + b"1] Other:\n", PASS[:-3] + b"] short\n"]
)
def test_a_run_ends_where_a_line_does_not_begin_like_it(others: bytes) -> None:
    ends = RunEnds()
    for count in (1, 2, 5, 6, 7, 8, 40):
        run = (PASS + b"Before Fusion:\n") * count
        assert ends.of_prefix(run + others, 0, PASS[:-1]) == len(run)
        assert ends.without_prefix(b"a\n\n" + run, 0) == 3
    assert ends.without_prefix(b"a\nb\n", 0) == 4


def test_what_follows_the_blocks_of_a_node_is_not_taken_for_one_of_them() -> None:
    """A chunk that ends inside the blocks of a rejected node lost all rejections up
    to the next message."""
    prefix = b"[UPDATE partition.cpp:236] "
    said = prefix + b"rejecting node from fusion (node not parsible): "
    first = (
        said
        + b"%a : Tensor = prim::If(%c) # model.py:1:8\n"
        + prefix
        + b"  block0():\n"
    )
    rest = (
        prefix
        + b"    -> (%x)\n"
        + said
        + b"%b : Tensor = aten::erfinv(%x) # model.py:2:8\n"
    )
    plan = b"[DUMP graph_fuser.cpp:2503] "
    graph = (
        b"Before Compilation: \n",
        b"graph(%x : Tensor, %c : bool):\n",
        b"  %b : Tensor = aten::erfinv(%x) # model.py:2:8\n",
        b"  return (%b)\n",
    )
    stream = [first, rest, b"".join(plan + line for line in graph)]
    for blocks in (stream, ["".join(map(bytes.decode, stream)).encode()]):
        report, _ = read(blocks)
        assert [
            (row.op, row.reason and row.reason.code) for row in report.unfused
        ] == [("aten::erfinv", "FD201")]


def test_an_empty_line_of_a_kernel_of_nnc_may_begin_a_chunk() -> None:
    """It was taken for the begin of a message, and what followed of the source was
    lost."""
    data = lzma.decompress((FIXTURES / "kernels/nnc-2.1-cuda.log.xz").read_bytes())
    whole = read([data])
    at = -1
    for _ in range(3):
        at = data.index(b"\n[DEBUG cuda_codegen.cpp:1068] \n", at + 1)
        assert read([data[: at + 1], data[at + 1 :]]) == whole


def test_a_message_that_broke_off_in_lines_that_stand_again_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are done when the next message of its prefix begins, which is
    behind those lines."""
    monkeypatch.setattr(repeats, "LEAST", 1 << 12)
    monkeypatch.setattr(repeats, "SHORTEST", 1 << 10)

    def message(prefix: str, op: str, size: int, end: str) -> str:
        nodes = [f"  %{n} : Tensor = {op}(%x) # m.py:{n}:1" for n in range(size)]
        lines = [
            "Optimized Graph:",
            "graph(%x : Tensor):",
            *nodes,
            *([end] if end else []),
        ]
        return "".join(f"[DUMP {prefix}] {line}\n" for line in lines)

    one, other = "graph_executor.cpp:780", "graph_executor.cpp:693"
    block = message(one, "aten::relu", 30, "  return (%1)") + message(
        other, "aten::sin", 8, ""
    )
    block += message(one, "aten::cos", 30, "  return (%1)") + message(
        other, "aten::tanh", 8, "  return (%1)"
    )
    log = tmp_path / "train.log"
    log.write_text(block * 6, encoding="utf-8")
    counts = report_from([str(log)]).parse
    assert (counts.lines, counts.recognised) == (
        block.count("\n") * 6,
        block.count("\n") * 6,
    )
    assert counts.truncated == 6
