"""Lines made to be slow to read: time grows with their length, not with its square;
memory is bounded."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from work_done import lines_in_proportion, time_in_proportion

from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.errors import UsageError
from fusiondoc.parsers.lines.error_texts import read_error
from fusiondoc.parsers.lines.log_files import MOST_LINE, LogInput, read_chunks
from fusiondoc.parsers.read import read_logs
from fusiondoc.rendering import highlighting

NODE = b"  %3 : Tensor = aten::add(%1, %2, %4) # a.py:3:4"
UPDATE = b"[UPDATE partition.cpp:70] "
GRAPH = b"[DUMP graph_fuser.cpp:2505] "


def graph(inside: bytes) -> bytes:
    return b"\n".join(
        GRAPH + line
        for line in (
            b"Before Fusion: ",
            b"graph(%1 : Tensor,",
            b"      %2 : Tensor):",
            inside,
            b"  return (%3)",
        )
    )


MAKERS: dict[str, Callable[[int], bytes]] = {
    "progress bar and a long line": lambda n: b"10%\r20%\r\n" + b"x" * n + b"\n",
    "progress bars": lambda n: b"\r10%" * (n // 4) + b"\n",
    "line of carriage returns": lambda n: b"\r" * n + b"x\n",
    "Warning and a long line": lambda n: b"a" * n + b"Warning: \n",
    "many Warnings": lambda n: b"a.py:3: Warning: "[:-3] + b"Warning: " * (n // 9),
    "Warning after many colons": lambda n: b":1" * (n // 2) + b"Warning: ",
    "Warning after dots": lambda n: b"a." * (n // 2) + b" Warning: ",
    "[W and a long line": lambda n: b"[W" + b"a" * n,
    "[W and words": lambda n: b"[W" + b"a.b:1 " * (n // 6) + b"] x",
    "error after Traceback": lambda n: (
        b"Traceback (most recent call last):\nRuntimeError: " + b"a " * (n // 2)
    ),
    "error name after Traceback": lambda n: (
        b"Traceback (most recent call last):\n" + b"Error" * (n // 5) + b"!"
    ),
    "dotted error after Traceback": lambda n: (
        b"Traceback (most recent call last):\n" + b"a." * (n // 2) + b"E"
    ),
    "question marks": lambda n: graph(
        b"  %3 : Tensor" + b"?" * n + b" = aten::add(%1, %2)"
    ),
    "lists": lambda n: graph(
        b"  %3 : Tensor" + b"[]" * (n // 2) + b" = aten::add(%1, %2)"
    ),
    "strides": lambda n: graph(
        b"  %3 : Float(" + b", strides=[" * (n // 11) + b") = aten::add(%1, %2)"
    ),
    "brackets": lambda n: graph(
        b"  %3 : Tensor = aten::add" + b"[" * n + b"(%1, %2)"
    ),
    "quotes": lambda n: graph(
        b'  %3 : Tensor = prim::Constant[value="' + b'\\"' * (n // 2) + b"]()"
    ),
    "equals": lambda n: graph(b"  %3 : Tensor" + b"=" * n + b"aten::add(%1)"),
    "spaced equals": lambda n: graph(
        b"  %3" + b" =a" * (n // 3) + b"aten::add(%1)"
    ),
    "python scalars": lambda n: graph(b"  %3 : Tensor = ^F(" + b")(%1" * (n // 4)),
    "spaces over lines": lambda n: graph(
        b"  %3 : Tensor = aten::add(%1,\n" + GRAPH + b" " * n + b"%2)"
    ),
    "parameters": lambda n: GRAPH + b"graph(" + b"%1 : Tensor," * (n // 12),
    "graphs on a line": lambda n: GRAPH + b"graph( " * (n // 7),
    "sizes": lambda n: graph(
        b"  %3 : Float(" + b"1, " * (n // 3) + b"device=cpu) = aten::add(%1, %2)"
    ),
    "digits": lambda n: graph(
        b"  %3 : Float(" + b"1" * n + b") = aten::add(%1, %2)"
    ),
    "rejections": lambda n: UPDATE + b"rejecting node from fusion (" * (n // 28),
    "spaces": lambda n: b" " * n + b"x",
    "kernel heads": lambda n: b"KERNEL (" + b") -> (" * (n // 6),
    "argument tuples": lambda n: (
        b"Arguments for kernel1:\nInputs:\n" + b"(" + b"," * n
    ),
    "profile": lambda n: b"- - 1.0 ] " + b"nvfuser_" * (n // 8) + b"!",
    "onednn": lambda n: (
        b"onednn_verbose,graph,exec,cpu,1,k,a,"
        + b"in1_" * (n // 4)
        + b",fpm:strict,sdpa,dnnl,1.0\n"
    ),
    "kernel names": lambda n: (
        b"kernel" + b"1" * n + b" run in 1 ms, achieved: 1 GB/s"
    ),
    "marks": lambda n: b"x" + b"[DUMP " * (n // 6),
    "prefixes": lambda n: (b"1" * n + b" " + GRAPH + b"graph(%1 : Tensor):\n") * 4,
    "colours": lambda n: b"\x1b[" * (n // 2),
    "colour numbers": lambda n: b"\x1b[" + b"1;" * (n // 2),
    "fallbacks": lambda n: (
        b"FALLBACK path has been taken inside: " + b"a:" * (n // 2)
    ),
    "graphs behind text": lambda n: b"a graph(%1 : " * (n // 13) + b"Tensor):\n",
    "sections behind text": lambda n: (
        b"with a::b = " * (n // 12) + b"graph(%1 : Tensor):\n"
    ),
    "lines without indentation": lambda n: (
        b"graph(%1 : Tensor):\n%2" + b", %3" * (n // 4) + b"\n"
    ),
    "errors": lambda n: b"RuntimeError: a\n" * (n // 16),
    "errors on a line": lambda n: b"RuntimeError: " * (n // 14) + b"\nx\n",
    "vectors": lambda n: (
        b"RuntimeError: "
        + b"Vectorization of T1_g[ ] with word size " * (n // 40)
        + b"\n"
    ),
    "crashes": lambda n: (
        b"exitcode  " * (n // 10) + b"\n" + b"Signals.SIG" * (n // 11)
    ),
    "numbers in a prefix": lambda n: (
        (b"1 " * 100 + b"  return (%1)\n") * (n // 200) + b"1" * 200 + b"\n"
    ),
    "objects": lambda n: (
        b'{"a": "[DUMP a.cpp:1] x"}\n' * 4 + b'{"a": [' + b"{" * (n // 2) + b"\n"
    ),
    "options": lambda n: b"PYTORCH_NVFUSER_DUMP" * (n // 20) + b"=a\n",
    "code": lambda n: (
        b"======= Codegen output for kernel: kernel1 =======\n"
        + b"__global__ void a(" * (n // 18)
        + b"\n"
        + b"=" * 38
    ),
    "sources without an end": lambda n: (
        b"======= Codegen output for kernel: kernel1 =======\n" * (n // 51)
    ),
    "sources broken off before one with an end": lambda n: (
        b"======= Codegen output for kernel: kernel1 =======\n" * (n // 51)
        + b"=" * 38
        + b"\n"
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_reading_takes_time_in_proportion(name: str, tmp_path: Path) -> None:
    def reading(size: int) -> Callable[[], object]:
        log = tmp_path / f"{size}.log"
        log.write_bytes(MAKERS[name](size))
        return lambda: read_logs([LogInput("log", log)], work_out=Reasons(None))

    assert lines_in_proportion(reading, 4_000)
    assert time_in_proportion(reading, 15_000)


@pytest.mark.parametrize(
    "text",
    [
        "INTERNAL ASSERT FAILED at ",
        'INTERNAL ASSERT FAILED at "',
        "builtins for a",
        "a driver ",
        "RuntimeError",
        "T1 ",
        "ptxas fatal   ",
    ],
)
def test_classifying_an_error_takes_time_in_proportion(text: str) -> None:
    def classifying(size: int) -> Callable[[], object]:
        line = "RuntimeError: " + text * (size // len(text))
        return lambda: read_error(line)

    assert lines_in_proportion(classifying, 4_000)
    assert time_in_proportion(classifying, 50_000)


CODE = (
    *("//", "/*", "/* ", "\n ", '"', '\\"', "'", "\n#", "a ", "a(", "1e+"),
    *("\\\n", '"""', "'''", "\n@", "def ", "{"),
)


@pytest.mark.parametrize("part", CODE)
def test_colours_of_code_take_time_in_proportion(part: str) -> None:
    """Code of a kernel is text of the log; lexers of pygments took 15 s for the
    shorter one."""

    def colouring(size: int) -> Callable[[], object]:
        text = part * (size // len(part))

        def work() -> None:
            for colour in (highlighting.cuda, highlighting.python, highlighting.ir):
                assert "".join(value for _, value in colour(text)) == text

        return work

    assert lines_in_proportion(colouring, 4_000)
    assert time_in_proportion(colouring, 20_000)


def test_a_line_has_a_cap_and_the_rest_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + b"x" * (5 << 20) + b"\nlast\n")
    chunks = list(read_chunks(LogInput("log", log)))
    assert max(map(len, chunks)) <= MOST_LINE + (1 << 20)
    lines = b"".join(chunks).split(b"\n")
    assert (lines[0], lines[2], lines[3]) == (b"first", b"last", b"")
    report, _ = read_logs([LogInput("log", log)])
    assert report.parse is not None
    assert (report.parse.lines, report.parse.truncated) == (3, 1)
    assert report.parse.bytes == log.stat().st_size


@pytest.mark.parametrize(
    "ending, pack",
    [(".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)],
)
def test_what_unpacks_to_too_much_is_refused(
    ending: str,
    pack: Callable[[bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.LEAST_LIMIT", 8 << 20)
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.LIMIT_RATIO", 2)
    log = tmp_path / f"log{ending}"
    log.write_bytes(pack(b"\0" * (10 << 20)))
    with pytest.raises(UsageError, match="unpacks to more than"):
        read_logs([LogInput(log.name, log)])


def test_xz_is_read_over_several_streams_and_when_cut_off(tmp_path: Path) -> None:
    log = tmp_path / "log.xz"
    packed = lzma.compress(b"one\n") + b"\0" * 4 + lzma.compress(b"two\n" * 100_000)
    log.write_bytes(packed)
    assert (
        b"".join(read_chunks(LogInput("log", log))) == b"one\n" + b"two\n" * 100_000
    )
    log.write_bytes(packed[:-40])
    cut = b"".join(read_chunks(LogInput("log", log)))
    assert cut.startswith(b"one\ntwo\n")


@pytest.mark.parametrize(
    "ending, pack", [(".xz", lzma.compress), (".gz", gzip.compress)]
)
def test_a_packed_log_of_many_chunks_that_is_whole_cut_off_or_too_much(
    ending: str,
    pack: Callable[[bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.CHUNK_BYTES", 1 << 12)
    lines = b"".join(b"%d\n" % number for number in range(20_000))
    log = tmp_path / f"log{ending}"
    log.write_bytes(pack(lines))
    chunks = read_chunks(LogInput("log", log))
    assert b"".join(chunks) == lines
    log.write_bytes(pack(lines)[:-100])
    cut = b"".join(read_chunks(LogInput("log", log)))
    assert len(cut) > 1 << 15 and lines.startswith(cut)
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.LEAST_LIMIT", 1 << 16)
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.LIMIT_RATIO", 1)
    log.write_bytes(pack(lines))
    with pytest.raises(UsageError, match="unpacks to more than"):
        list(read_chunks(LogInput("log", log)))


def test_xz_that_needs_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fusiondoc.parsers.lines.log_files.MOST_XZ_MEMORY", 1 << 20)
    log = tmp_path / "log.xz"
    log.write_bytes(lzma.compress(b"one\n"))
    with pytest.raises(UsageError, match="cannot read"):
        list(read_chunks(LogInput("log.xz", log)))


@pytest.mark.parametrize("ending", [".xz", ".gz", ".bz2", ".zst"])
def test_what_its_name_alone_calls_compressed_is_refused(
    ending: str, tmp_path: Path
) -> None:
    if ending == ".zst":
        pytest.importorskip("zstandard")
    log = tmp_path / f"log{ending}"
    log.write_bytes(b"no such thing " * 300)
    with pytest.raises(UsageError, match="cannot read"):
        list(read_chunks(LogInput(log.name, log)))


def test_a_saved_report_has_a_limit(
    fusiondoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fusiondoc.workflows.MOST_REPORT_BYTES", 1 << 20)
    for text, said in (
        (b" \n" * (1 << 20), "larger than any report"),
        (b" " * (5 << 20), "a line of more than"),
    ):
        (tmp_path / "r.json.xz").write_bytes(lzma.compress(text, preset=0))
        done = fusiondoc("parse", "r.json.xz", cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr
