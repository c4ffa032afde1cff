"""A log that a second process reads ahead gives the report that one process gives, also where that process
dies, or cannot tell what stands there."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import signal
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from test_whole_runs import some_kernels
from thorough import THOROUGH

from fusiondoc.model.report import Report
from fusiondoc.parsers import read as read_module
from fusiondoc.parsers import read_ahead, repeats
from fusiondoc.parsers.kernels import kernel_sources
from fusiondoc.parsers.lines import log_files, pipes
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import Reading
from fusiondoc.parsers.read_ahead import Chunk, KnownChunks, is_worth_it, messages_of
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
    reading = Reading()
    reading.take(LogInput("some.log", path))
    reading.close()
    report, observed = reading.report(["some.log"])
    headers = {header: 1 for header in observed.headers if header not in ("", "<GRAPH_EXPORT>")}
    return replace(report, parse=replace(report.parse, seconds=0.0)), replace(observed, headers=headers)


def read_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Report, Observed]:
    with monkeypatch.context() as patch:
        patch.setattr(read_module, "is_worth_it", lambda log: False)
        return read(path)


class HereAndNow(KnownChunks):
    """The same messages, made in this process."""

    most: int | None = None
    """So many are sent before that process dies."""

    def __init__(self, log: LogInput) -> None:
        assert log.path is not None
        self.complete = False
        self._log = log
        self._path = log.path

    def sent(self) -> Generator[bytes, None, None]:
        for number, message in enumerate(messages_of(self._log)):
            if number == self.most:
                return
            yield message

    def close(self) -> None:
        pass


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small chunks, read ahead in this process; sizes of the stretches that were not read a second time."""
    done: list[int] = []
    real = Stream.feed_stretches

    def feed(stream: Stream, text: bytes, known, pos: int) -> int:  # type: ignore[no-untyped-def]
        known = list(known)
        done.extend(one.size for _, one in known)
        return real(stream, text, known, pos)

    monkeypatch.setattr(read_module, "KnownChunks", HereAndNow)
    monkeypatch.setattr(read_module, "is_worth_it", lambda log: True)
    monkeypatch.setattr(Stream, "feed_stretches", feed)
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(repeats, "LEAST", 1 << 12)
    monkeypatch.setattr(HereAndNow, "most", None)
    return done


@pytest.mark.parametrize("seed", range(20 if THOROUGH else 2))
def test_no_row_is_lost_or_changed(
    seed: int, here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs after one another, some a second time and some in part, so that messages break off anywhere."""
    chance = random.Random(seed)
    several = [text_of(name) for name in chance.sample(LOGS, 5)]
    texts = [*several, *several[:3]]
    texts = [text if chance.random() < 0.7 else text[chance.randrange(len(text)) :] for text in texts]
    log = tmp_path / "some.log"
    log.write_bytes(b"".join(texts))
    monkeypatch.setattr(log_files, "CHUNK_BYTES", chance.choice((9_973, 50_000, 1 << 21)))
    assert read(log) == read_alone(log, monkeypatch)
    assert sum(here) > log.stat().st_size // 10


def test_colours_and_carriage_returns_stand_in_the_file(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that differs from the bytes of the file is not sent: it is made of them once more."""
    text = text_of("logs/nvfuser-2.1.2-control-flow")
    lines = [line for line in text.split(b"\n") if line]
    for number, end in ((10, b"\x1b[31m \x1b[0m"), (300, b"\r"), (301, b"\x9b1m"), (302, b"\r50%\r")):
        lines[number] += end
    log = tmp_path / "some.log"
    log.write_bytes((b"\n".join(lines) + b"\n") * 4)
    assert read(log) == read_alone(log, monkeypatch)
    with closing(HereAndNow(LogInput("some.log", log))) as known:
        chunks = list(known)
    assert {chunk.place is not None for chunk in chunks} == {True}
    assert {chunk.stands != chunk.size for chunk in chunks} == {True, False}
    assert sum(chunk.stands for chunk in chunks) == log.stat().st_size


@pytest.mark.parametrize("seed", range(100 if THOROUGH else 3))
def test_a_source_of_a_kernel_is_sent_by_its_place(
    seed: int, here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then by its number: sources are most of what nvFuser's dumps have."""
    log = tmp_path / "some.log"
    plain = b"T1[3] = T0[0] / 3.5f;\n" * 3_000
    frame = b"======= Codegen output for kernel: kernel1 =======\n" + plain + b"=" * 38 + b"\n"
    message = b"[DEBUG kernel_cache.cpp:818] running GraphCache: 0x55c9b7dd78f0\n"
    end = b"=" * 38 + b"\n"  # of a source that is broken off
    log.write_bytes(b"".join((frame + message + some_kernels(seed + i) + end) for i in range(12)))
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 150_000)
    alone = read_alone(log, monkeypatch)
    assert read(log) == alone
    assert here
    with closing(HereAndNow(LogInput("some.log", log))) as known:
        sent = list(known.sent())
    assert sum(map(len, sent)) < log.stat().st_size // 3
    assert not any(plain[:5_000] in message for message in sent)
    monkeypatch.setattr(kernel_sources, "_MOST", 3)  # further ones are sent by their place each time
    assert read(log) == alone


@pytest.mark.skipif(not THOROUGH or not RECORDINGS.is_dir(), reason="all recordings are read at night")
def test_no_row_of_any_recording_is_lost_or_changed(here: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for log in sorted(RECORDINGS.glob("torch-*/**/*.log")):
        assert read(log) == read_alone(log, monkeypatch), log.name
    assert here


PASS = b"[DUMP graph_fuser.cpp:2503] "
OTHER = b"[DUMP profiling_graph_executor_impl.cpp:620] "


def graph_of(count: int, first: int = 0) -> bytes:
    nodes = (b"  %%%d : Tensor = aten::relu(%%x.1) # a.py:%d:1" % (i, i) for i in range(first, first + count))
    graph = b"Before Compilation:", b"graph(%x.1 : Tensor):", *nodes, b"  return (%1)"
    return b"".join(PASS + line + b"\n" for line in graph)


def test_a_message_that_breaks_off_in_a_stretch_is_counted(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 2400, 60)]
    torn = OTHER + b"Optimized Graph:\n" + OTHER + b"graph(%x : Tensor):\n"
    log = tmp_path / "some.log"
    log.write_bytes(b"".join((*whole[:20], torn, *whole[20:])))
    report, observed = read(log)
    assert (report, observed) == read_alone(log, monkeypatch)
    assert len(report.unfused) == 2400
    assert sum(here) > log.stat().st_size * 0.9


def test_a_traceback_around_a_stretch_is_read_as_one(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the second process says of a stretch holds whether an error was being printed or not. The error's
    line is reason to note the message before it, which is of no stretch then: one line was lost."""
    said = b"Traceback (most recent call last):\n"
    error = b'  File "m.py", line 1, in f\nRuntimeError: CUDA out of memory.\n'
    stretch = b"".join(graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 600, 60))
    log = tmp_path / "some.log"
    log.write_bytes(stretch * 2 + said + stretch + error + stretch)
    report, observed = read(log)
    assert (report, observed) == read_alone(log, monkeypatch)
    assert sum(here) > log.stat().st_size // 2


def test_torn_lines_of_several_processes_are_counted(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = b"Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    whole = [graph_of(60, first) + OTHER + b"Other:\n" for first in range(0, 2400, 60)]
    torn = (OTHER + b"Other: " + PASS + b"x\n") * 2 + b"text " + OTHER + b"Other:\n"
    log = tmp_path / "some.log"
    log.write_bytes(b"".join((launch, *whole[:10], torn, *whole[10:30], torn, *whole[30:])))
    report, observed = read(log)
    assert (report, observed) == read_alone(log, monkeypatch)
    lines = log.read_bytes().split(b"\n")
    places = [number for number, line in enumerate(lines, 1) if line.startswith(OTHER) and PASS in line]
    assert observed.torn == 4 and [one.line for one in observed.torn_lines] == places[:3]
    assert here


@pytest.mark.parametrize("sent", [0, 1, 3])
def test_the_rest_is_read_where_the_second_process_dies(
    sent: int, here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(text_of("logs/nvfuser-2.1.2-control-flow") * 2)
    monkeypatch.setattr(HereAndNow, "most", sent)
    progress: list[int] = []
    reading = Reading()
    reading.take(LogInput("some.log", log), progress=progress.append)
    reading.close()
    report, _ = reading.report(["some.log"])
    alone, _ = read_alone(log, monkeypatch)
    assert replace(report, parse=replace(report.parse, seconds=0.0)) == alone
    assert sum(progress) == report.parse.bytes == log.stat().st_size


def test_a_file_that_is_written_over_is_not_read_by_what_stood_in_it(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found in its text was looked for in another: "subsection not found"."""
    log = tmp_path / "some.log"
    text = text_of("logs/nnc-2.11-rejects") * 4

    class Overwritten(HereAndNow):
        def sent(self) -> Generator[bytes, None, None]:
            for number, message in enumerate([*messages_of(self._log)]):
                if number == 2:
                    log.write_bytes(b"z\n" * (len(text) // 2))
                yield message

    log.write_bytes(text)
    monkeypatch.setattr(read_module, "KnownChunks", Overwritten)
    report, _ = read(log)
    assert here
    assert report.parse.user_output > len(text) // 4


def test_long_lines_colours_and_no_last_line_end(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MOST_LINE", 5_000)
    text = text_of("logs/nvfuser-2.1.2-rejects-full")
    lines = text.split(b"\n")
    lines[40] += b"x" * 60_000
    lines[1000:1000] = [b"\x1b[31mred\x1b[0m", b"10%\r20%", b"y" * 120_000]
    log = tmp_path / "some.log"
    log.write_bytes(b"\n".join(lines).rstrip(b"\n"))
    report, observed = read(log)
    assert (report, observed) == read_alone(log, monkeypatch)
    assert report.parse.bytes == log.stat().st_size
    assert here


def test_packed_logs_and_utf_16(here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("logs/nvfuser-2.1.2-control-flow")
    for name, data in (("a.log.gz", gzip.compress(text, 1)), ("b.log", text.decode().encode("utf-16"))):
        here.clear()
        log = tmp_path / name
        log.write_bytes(data)
        assert read(log) == read_alone(log, monkeypatch)
        assert here, name


def test_a_log_of_several_processes_is_read_by_one(
    here: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "some.log"
    lines = text_of("logs/nvfuser-2.1.2-control-flow").split(b"\n")
    log.write_bytes(b"".join(b"[rank%d]: %s\n" % (rank, line) for line in lines for rank in (0, 1)))
    report, observed = read(log)
    assert (report, observed) == read_alone(log, monkeypatch)
    assert {group.rank for group in report.groups} == {0, 1}
    assert not here


@pytest.mark.parametrize("name", ["some.log", "some.log.gz"])
def test_a_real_process_reads_ahead(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that does not stand in the file is sent, in pieces that are larger than a pipe."""
    log = tmp_path / name
    text = text_of("logs/nvfuser-2.1.2-control-flow") * 8
    log.write_bytes(gzip.compress(text, 1) if log.suffix == ".gz" else text)
    assert not is_worth_it(LogInput("some.log", log))
    monkeypatch.setattr(read_ahead, "LEAST_BYTES", 1 << 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert is_worth_it(LogInput("some.log", log))
    assert read(log) == read_alone(log, monkeypatch)
    with closing(KnownChunks(LogInput("some.log", log))) as known:
        assert b"".join(chunk.text for chunk in known) == text
        assert known.complete


def test_a_process_that_is_killed_is_noticed(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(text_of("logs/nvfuser-2.1.2-control-flow") * 40)
    with closing(KnownChunks(LogInput("some.log", log))) as known:
        assert known._served.process is not None
        os.kill(known._served.process.pid, signal.SIGSTOP)
        os.kill(known._served.process.pid, signal.SIGKILL)
        assert b"".join(chunk.text for chunk in known) != log.read_bytes()
        assert not known.complete


def test_a_process_that_is_stopped_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it sent anything, and in the midst of it; what it had sent counts."""
    log = tmp_path / "some.log"
    log.write_bytes(text_of("logs/nvfuser-2.1.2-control-flow") * 200)
    alone = read_alone(log, monkeypatch)
    monkeypatch.setattr(read_module, "is_worth_it", lambda log: True)
    chunks = KnownChunks.__iter__
    for first in (0, 2):
        stopped = []

        def stop(known: KnownChunks, first: int = first, stopped: list[int] = stopped) -> Iterator[Chunk]:
            def now() -> None:
                assert known._served.process is not None
                os.kill(known._served.process.pid, signal.SIGSTOP)
                stopped.append(known._served.process.pid)
                monkeypatch.setattr(pipes, "_MOST_SILENT", 0.3)  # not before: a process takes time to start

            monkeypatch.setattr(pipes, "_MOST_SILENT", 60.0)
            if not first:
                now()
            for number, chunk in enumerate(chunks(known), 1):
                if number == first:
                    now()
                yield chunk
            assert first or not known.complete  # in the midst it may have sent all

        with monkeypatch.context() as patch:
            patch.setattr(KnownChunks, "__iter__", stop)
            assert read(log) == alone
        with pytest.raises(ProcessLookupError):  # it is not left behind
            os.kill(stopped[0], 0)


def test_without_a_second_core_or_process_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(text_of("logs/nvfuser-2.1.2-rejects-full"))
    monkeypatch.setattr(read_ahead, "LEAST_BYTES", 1 << 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert not is_worth_it(LogInput("some.log", log))
    alone = read(log)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(read_ahead.sys, "executable", str(tmp_path / "python"))
    assert is_worth_it(LogInput("some.log", log))
    assert read(log) == alone
