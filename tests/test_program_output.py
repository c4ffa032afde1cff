"""Output of the program is taken many lines at a time, with the same result as line
by line."""

from __future__ import annotations

import lzma
import random
import re
from pathlib import Path
from re import Pattern

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import THOROUGH

from fusiondoc.fusers import stdout_marks
from fusiondoc.fusers.nvfuser import errors as nvfuser_errors
from fusiondoc.parsers import facts, program_output
from fusiondoc.parsers import read as read_module
from fusiondoc.parsers.facts import Facts, LineCounts
from fusiondoc.parsers.jit import message_runs
from fusiondoc.parsers.kernels import launches
from fusiondoc.parsers.kernels.kernel_dumps import KINDS
from fusiondoc.parsers.lines import failures, other_tools, torch_warnings
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.program_output import SIGNS, Pieces
from fusiondoc.parsers.read import Reading
from fusiondoc.parsers.stream import Stream

AT_REST: dict[str, Pattern[bytes]] = {
    "bandwidth": launches.BANDWIDTH,
    "performance": launches.PERF,
    "launch": launches.LAUNCH,
    "source": launches.FRAME_START,
    "mark": facts.MARK,
    "glued": message_runs.GLUED,
    "fallback": torch_warnings.FALLBACK,
    "options": nvfuser_errors.OPTIONS_SET,
    "crash": failures.CRASH,
    "stack": failures._STACK,
    "failed child": re.compile(re.escape(failures._CHILD_FAILED)),
    "loose error": failures._LOOSE,
    "trace": other_tools._TRACE,
    "IR": other_tools._STARTS_IR,
    "C++ warning": re.compile(rb"\[W\w+\.cpp:\d+\] "),
    "Python warning": re.compile(rb"\w+:\d{1,9}: \w*Warning: "),
    "traceback": re.compile(rb"Traceback "),
    "graph": re.compile(rb"graph\("),
    "torch's log": re.compile(rb"\[(?:DUMP|UPDATE|DEBUG) "),
    **{mark.decode(): re.compile(re.escape(mark)) for mark in stdout_marks()},
    **{
        f"dump {kind.option} {number}": re.compile(kind.start)
        for number, kind in enumerate(KINDS)
    },
}
"""All that a line can be besides output of the program, where nothing is open
before it."""


@pytest.mark.parametrize("name", AT_REST)
def test_each_line_that_is_more_than_output_holds_a_sign(name: str) -> None:
    pattern = AT_REST[name]

    @settings(max_examples=500 if THOROUGH else 40, deadline=None, database=None)
    @given(st.from_regex(pattern))
    def holds(found: bytes) -> None:
        match = pattern.search(found)
        assert match is not None
        # As it stands in a log: from the first byte of its line, where it must;
        # without line ends in it.
        line = (
            b"\n"
            + (
                found[match.start() :] if b"^" in pattern.pattern else match.group()
            ).split(b"\n")[0]
        )
        if pattern.search(line, 1) is not None:
            assert any(sign in line for sign in SIGNS), line

    holds()


def lines_of(chance: random.Random) -> bytes:
    """Output of programs, in which there stand lines that are more, as real logs
    have them."""
    logs = (
        "logs/nvfuser-2.1.2-control-flow",
        "logs/nvfuser-1.12.1-crash",
        "kernels/onednn-2.13-verbose",
    )
    real = [
        line
        for name in logs
        for line in lzma.decompress(
            (ROOT / "fixtures" / f"{name}.log.xz").read_bytes()
        ).split(b"\n")[:3000]
    ]
    special = (
        *(
            b"Traceback (most recent call last):",
            b'  File "a.py", line 3, in f',
            b"ValueError: no",
            b"",
        ),
        *(
            b"a.py:3: UserWarning: FALLBACK path has been taken inside: runCudaFusionGroup.",
            b"  return f(x)",
        ),
        *(
            b"Segmentation fault (core dumped)",
            b"Inputs:",
            b"T0_g[1]",
            b"graph(%x : Tensor):",
            b"  return (%x)",
        ),
        *(
            b"kernel1 run in 0.5 ms, achieved: 100 GB/s",
            b"ptxas info    : 0 bytes gmem",
            b"0  FOR x",
            b"Aborted",
        ),
        *(
            b"[W manager.cpp:335] Warning: x",
            b"progress [DUMP graph_fuser.cpp:2500] x",
            b"# Constructed by x",
        ),
        *(
            b"PYTORCH_NVFUSER_DUMP=x python a.py",
            b"RuntimeError: CUDA error: no",
            b"SyncMap:",
            b"After Fusion:",
        ),
    )
    made: list[bytes] = []
    while len(made) < 3000:
        kind = chance.random()
        if kind < 0.6:
            made += [
                b"step %d loss %.4f" % (k, chance.random())
                for k in range(chance.randrange(400))
            ]
        elif kind < 0.8:
            made += [b""] * chance.randrange(3) + [
                chance.choice(special)
            ] * chance.randrange(3)
        else:
            start = chance.randrange(len(real))
            made += real[start : start + chance.randrange(60)]
    return b"\n".join(made) + b"\n"


@pytest.mark.parametrize("seed", range(200 if THOROUGH else 8))
def test_as_line_by_line(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    log = tmp_path / "some.log"
    log.write_bytes(lines_of(chance))
    taken: list[int] = []
    real = Stream._output

    def output(stream: Stream, text: bytes, pos: int) -> int:
        taken.append(len(text))
        return real(stream, text, pos)

    monkeypatch.setattr(Stream, "_output", output)
    monkeypatch.setattr(program_output, "_FIRST", chance.choice((200, 1 << 12)))
    fast = everything(log)
    assert taken or seed >= 8  # what opens something for good may come first
    monkeypatch.setattr(program_output, "_LEAST", 1 << 40)
    assert everything(log) == fast


def everything(log: Path) -> tuple[object, ...]:
    reading = Reading()
    with read_module._no_collection():
        reading.take(LogInput("some.log", log))
        reading.close()
    work = [stream.facts.work.over for stream in reading._streams.values()]
    report, observed = reading.report(["some.log"])
    parse = {
        name: value
        for name, value in vars(report.parse).items()
        if name != "seconds"
    }
    rows = report.groups, report.unfused, report.kernels, report.fallbacks
    return parse, rows, observed, work


def test_pieces_are_whole_lines_one_after_the_other() -> None:
    text = b"".join(
        b"line %d\n" % k + (b"\n\nsee graph(\n" if k % 90 == 0 else b"")
        for k in range(3000)
    )
    found = list(Pieces(text, 0, len(text), lambda: True))
    ends = [0, *(end for end, _ in found)]
    assert ends == sorted(set(ends)) and ends[-1] == len(text)
    for start, (end, is_output) in zip(ends, found):
        assert text[end - 1 : end] == b"\n"
        if is_output:
            assert b"graph(" not in text[start:end] and not text[
                start:end
            ].endswith(b"\n\n")
    assert sum(is_output for _, is_output in found) > 30
    assert [
        one for one in Pieces(text, 0, len(text), lambda: False) if one[1]
    ] == []


def test_counted_together_in_the_facts() -> None:
    """A million lines are a few hundred acts."""
    counts = LineCounts()
    stream = Stream(Facts(), counts)
    text = b"step 1 loss 0.5\n" * 100_000
    assert stream.feed_text(text, 1) == 100_000
    assert counts.user_output == 100_000 and stream.facts.work.over == 100_000
