"""A log that is read in small chunks, in which stretches that stood there before
are done again, gives the report that reading it line by line gives: colours, long
lines, sources, compressed logs, torn lines."""

from __future__ import annotations

import gzip
import lzma
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_whole_runs import feed_lines, some_kernels
from test_whole_runs import read as read_blocks
from thorough import THOROUGH

from fusiondoc.model.report import Report
from fusiondoc.parsers import repeats
from fusiondoc.parsers.kernels import kernel_sources
from fusiondoc.parsers.lines import log_files
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.repeats import Stretch, Tape
from fusiondoc.parsers.stream import Stream

RECORDINGS = ROOT.parent / "shared" / "recordings"
LOGS = (
    "logs/nnc-2.11-rejects",
    "logs/nvfuser-2.1.2-control-flow",
    "logs/nvfuser-2.1.2-rejects-full",
    "logs/nvfuser-1.12.1-crash",
    "logs/nvfuser-2.1.2-beside-nnc",
    "logs/nvfuser-2.1.2-fallback-run",
    "dumps/nvfuser-2.1.2-segmented.figures",
    "kernels/onednn-2.13-verbose",
)


def text_of(name: str) -> bytes:
    return lzma.decompress((ROOT / "fixtures" / f"{name}.log.xz").read_bytes())


def read(path: Path) -> tuple[Report, Observed]:
    return read_blocks(None, path)


def read_simply(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Report, Observed]:
    """In the same chunks, every line split off."""
    with monkeypatch.context() as patch:
        patch.setattr(Stream, "feed_text", feed_lines)
        return read(path)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small chunks; sizes of the stretches that were done again, which are short,
    as in small logs."""
    done: list[int] = []
    real = Tape.do_again

    def do_again(tape: Tape, stretch: Stretch, *place: Any) -> None:
        done.append(stretch.size)
        real(tape, stretch, *place)

    monkeypatch.setattr(Tape, "do_again", do_again)
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(repeats, "LEAST", 1 << 12)
    return done


@pytest.mark.parametrize("seed", range(20 if THOROUGH else 2))
def test_no_row_is_lost_or_changed(
    seed: int, again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs after one another, some four times and some in part, so that messages
    break off anywhere."""
    chance = random.Random(seed)
    several = [text_of(name) for name in chance.sample(LOGS, 5)]
    texts = [*several, *several[:3] * 3]
    texts = [
        text if chance.random() < 0.7 else text[chance.randrange(len(text)) :]
        for text in texts
    ]
    log = tmp_path / "some.log"
    log.write_bytes(b"".join(texts))
    monkeypatch.setattr(
        log_files, "CHUNK_BYTES", chance.choice((9_973, 50_000, 1 << 21))
    )
    assert read(log) == read_simply(log, monkeypatch)
    assert sum(again) > log.stat().st_size // 10


def test_colours_and_carriage_returns_change_nothing(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no part of the lines of torch that they stand on."""
    text = text_of("logs/nvfuser-2.1.2-control-flow")
    lines = [line for line in text.split(b"\n") if line]
    for number, end in (
        (10, b"\x1b[31m \x1b[0m"),
        (300, b"\r"),
        (301, b"\x9b1m"),
        (302, b"\r50%\r"),
    ):
        lines[number] += end
    log = tmp_path / "some.log"
    log.write_bytes((b"\n".join(lines) + b"\n") * 4)
    assert read(log) == read_simply(log, monkeypatch)
    assert again


@pytest.mark.parametrize("seed", range(100 if THOROUGH else 3))
def test_a_source_of_a_kernel_is_looked_through_once(
    seed: int, again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more of them stand in the log than are known again: sources are
    most of what nvFuser's dumps have."""
    log = tmp_path / "some.log"
    plain = b"T1[3] = T0[0] / 3.5f;\n" * 3_000
    frame = (
        b"======= Codegen output for kernel: kernel1 =======\n"
        + plain
        + b"=" * 38
        + b"\n"
    )
    message = b"[DEBUG kernel_cache.cpp:818] running GraphCache: 0x55c9b7dd78f0\n"
    end = b"=" * 38 + b"\n"  # of a source that is broken off
    log.write_bytes(
        b"".join(
            (frame + message + some_kernels(seed + i) + end) for i in range(12)
        )
    )
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 150_000)
    simple = read_simply(log, monkeypatch)
    assert read(log) == simple
    monkeypatch.setattr(kernel_sources, "_MOST", 3)
    assert read(log) == simple


@pytest.mark.skipif(
    not THOROUGH or not RECORDINGS.is_dir(),
    reason="all recordings are read at night",
)
def test_no_row_of_any_recording_is_lost_or_changed(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for log in sorted(RECORDINGS.glob("torch-*/**/*.log")):
        assert read(log) == read_simply(log, monkeypatch), log.name
    assert again


PASS = b"[DUMP graph_fuser.cpp:2503] "
OTHER = b"[DUMP profiling_graph_executor_impl.cpp:620] "


def graph_of(count: int, first: int = 0) -> bytes:
    nodes = (
        b"  %%%d : Tensor = aten::relu(%%x.1) # a.py:%d:1" % (i, i)
        for i in range(first, first + count)
    )
    graph = (
        b"Before Compilation:",
        b"graph(%x.1 : Tensor):",
        *nodes,
        b"  return (%1)",
    )
    return b"".join(PASS + line + b"\n" for line in graph)


def test_a_message_that_breaks_off_in_a_stretch_is_counted(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [
        graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 2400, 60)
    ]
    torn = OTHER + b"Optimized Graph:\n" + OTHER + b"graph(%x : Tensor):\n"
    log = tmp_path / "some.log"
    log.write_bytes(b"".join((*whole[:20], torn, *whole[20:])) * 4)
    report, observed = read(log)
    assert (report, observed) == read_simply(log, monkeypatch)
    assert len(report.unfused) == 2400
    assert sum(again) > log.stat().st_size // 3


def test_a_traceback_around_a_stretch_is_read_as_one(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stretch is the same whether an error was being printed or not. The error's
    line is reason to note the message before it, which is of no stretch then: one
    line was lost."""
    said = b"Traceback (most recent call last):\n"
    error = b'  File "m.py", line 1, in f\nRuntimeError: CUDA out of memory.\n'
    stretch = b"".join(
        graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 600, 60)
    )
    log = tmp_path / "some.log"
    log.write_bytes(stretch * 4 + said + stretch + error + stretch)
    report, observed = read(log)
    assert (report, observed) == read_simply(log, monkeypatch)
    assert sum(again) > log.stat().st_size // 2


def test_torn_lines_of_several_processes_are_counted(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = b"Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    whole = [
        graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 2400, 60)
    ]
    torn = (OTHER + b"Other: " + PASS + b"x\n") * 2 + b"text " + OTHER + b"Other:\n"
    log = tmp_path / "some.log"
    log.write_bytes(
        launch + b"".join((*whole[:10], torn, *whole[10:30], torn, *whole[30:])) * 4
    )
    report, observed = read(log)
    assert (report, observed) == read_simply(log, monkeypatch)
    lines = log.read_bytes().split(b"\n")
    places = [
        number
        for number, line in enumerate(lines, 1)
        if line.startswith(OTHER) and PASS in line
    ]
    assert (
        observed.torn == 16
        and [one.line for one in observed.torn_lines] == places[:3]
    )
    assert again


def test_long_lines_colours_and_no_last_line_end(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MOST_LINE", 5_000)
    text = text_of("logs/nvfuser-2.1.2-rejects-full")
    lines = (text * 4).split(b"\n")
    lines[40] += b"x" * 60_000
    lines[1000:1000] = [b"\x1b[31mred\x1b[0m", b"10%\r20%", b"y" * 120_000]
    log = tmp_path / "some.log"
    log.write_bytes(b"\n".join(lines).rstrip(b"\n"))
    report, observed = read(log)
    assert (report, observed) == read_simply(log, monkeypatch)
    assert report.parse.bytes == log.stat().st_size
    assert again


def test_packed_logs_and_utf_16(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of("logs/nvfuser-2.1.2-control-flow") * 4
    for name, data in (
        ("a.log.gz", gzip.compress(text, 1)),
        ("b.log", text.decode().encode("utf-16")),
    ):
        again.clear()
        log = tmp_path / name
        log.write_bytes(data)
        assert read(log) == read_simply(log, monkeypatch)
        assert again, name


def test_a_log_of_several_processes_in_chunks(
    again: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "some.log"
    lines = text_of("logs/nvfuser-2.1.2-control-flow").split(b"\n")
    log.write_bytes(
        b"".join(
            b"[rank%d]: %s\n" % (rank, line) for line in lines for rank in (0, 1)
        )
    )
    report, observed = read(log)
    assert (report, observed) == read_simply(log, monkeypatch)
    assert {group.rank for group in report.groups} == {0, 1}
    assert not again
