"""Seeded damage to bytes: what disks, pipes, editors, several writers and attackers
do to a file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

TOKENS = (
    *(
        b"-1",
        b"0",
        b"nan",
        b"inf",
        b"1e400",
        b"",
        b"9" * 5000,
        b"9" * 30,
        "\u00b2".encode(),
        "\u0663".encode(),
    ),
    *(
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'"\\ud800"',
        b'"x"',
        b"/" + b"a" * 300 + b"/b.py",
        b"\xff",
        b"\0",
    ),
)
"""What stands in the place of a word: numbers that are none or too long, JSON's
other types, long names."""

NUMBERS = (
    *(
        b"0",
        b"-1",
        b"1e200",
        b"1e308",
        b"1e-200",
        b"inf",
        b"nan",
        b"0x10",
        b"1_0",
        "\u0663".encode(),
    ),
    *(b"9" * digits for digits in (18, 19, 20, 40, 400, 5000)),
    *(b"9223372036854775807", b"18446744073709551615"),
)
"""What stands in the place of a number: the bounds of 64 bits, and more than
Python's int and float take."""

INSERTED = (
    *(
        b"\r",
        b"10%|###   | 1/10\r",
        b"\x1b[2K\x1b[1A",
        b"\x1b]0;title\x07",
        b"\n::error::x\n",
        b"\xe2\x80\xae",
    ),
    *(
        b"%",
        b"(",
        b")",
        b"[",
        b"]",
        b'"',
        b"'",
        b"{",
        b"}",
        b"=",
        b" : ",
        b"????",
        b"Warning: ",
        b"[W a.cpp:1] ",
    ),
    *(
        b"Traceback (most recent call last):\n",
        b"RuntimeError: ",
        b"INTERNAL ASSERT FAILED at ",
    ),
    *(
        b"[rank1]: ",
        b"1: ",
        b"[DUMP graph_fuser.cpp:2505] ",
        b"graph(",
        b"with prim::CudaFusionGroup_0 = graph(",
    ),
    *(
        b"Before Compilation: \n",
        b"======= Codegen output for kernel: kernel1 =======\n",
        b"# a.py:1:2\n",
    ),
)
"""What comes between: terminals, progress bars, other ranks, the beginnings of what
the parsers look for."""

_WORD = re.compile(
    rb'\d+(?:\.\d+)?(?:e[+-]?\d+)?|"[^"\n]*"|null|true|false|[\w./]+'
)


def changed(data: bytes, draw: Random) -> bytes:
    """One change of bytes."""
    at, other = draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)
    kind = draw.randrange(6)
    if kind == 0:
        return data[:at] + data[at + draw.randrange(1, 200) :]
    if kind == 1:
        return (
            data[:at]
            + bytes(draw.randrange(256) for _ in range(draw.randrange(1, 4)))
            + data[at:]
        )
    if kind == 2:
        return data[:at] + data[other : other + 200] + data[at:]
    if kind == 3:
        return data[:at] if draw.random() < 0.5 else data[at:]
    words = list(_WORD.finditer(data, at, at + 2000))
    if not words:
        return data
    word = draw.choice(words)
    return data[: word.start()] + draw.choice(TOKENS) + data[word.end() :]


_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|(?<=[A-Za-z_])\d+")


def changed_numbers(log: bytes, draw: Random) -> bytes:
    """Many numbers of a log replaced by one, or each by another: two of them
    together can overflow."""
    share = draw.choice((0.02, 0.1, 0.5, 1.0))
    one = draw.choice(NUMBERS) if draw.random() < 0.6 else None
    begin = draw.randrange(len(log) + 1)
    end = min(len(log), begin + (4_000 if one is None or len(one) < 50 else 800))

    def number(match: re.Match[bytes]) -> bytes:
        return (
            (one or draw.choice(NUMBERS))
            if draw.random() < share
            else match.group()
        )

    return log[:begin] + _NUMBER.sub(number, log[begin:end]) + log[end:]


VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        0.0,
        -0.5,
        1e-320,
        1e308,
        -1e308,
        2**63,
        10**400,
        1e17,
        4_000_000_000,
    ),
    *(
        "",
        "x",
        "\x1b]0;t\x07",
        "\u202e[red]",
        "[/b]",
        "::error::x",
        "a" * 3000,
        "../../..",
        "\ud800",
        "_" + "9" * 40,
    ),
    *([], {}, [[]], [None], ["x"], [1, 2, 3], {"a": 1}, {"x": {"y": []}}),
)
"""JSON values that stand in the place of another."""


def changed_json(data: bytes, draw: Random) -> bytes:
    """One value of a JSON document, or of one of its lines, changed, left out,
    doubled or moved."""
    lines = data.split(b"\n")
    number = (
        0
        if data.lstrip()[:1] == b"{" and len(lines) > 1 and lines[0].strip() == b"{"
        else None
    )
    try:
        if number is None:
            number = draw.randrange(len(lines))
            document = json.loads(lines[number])
        else:
            document = json.loads(data)
    except (ValueError, RecursionError):
        return changed(data, draw)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (dict, list)):
            inside = list(one.items() if isinstance(one, dict) else enumerate(one))
            places += [(one, key) for key, _ in inside]
            waiting += [value for _, value in inside]
    if places:
        (holder, key), (other, name) = draw.choice(places), draw.choice(places)
        kind = draw.randrange(8)
        if kind < 5:
            holder[key] = draw.choice(VALUES)
        elif kind == 5:
            del holder[key]
        elif kind == 6:
            holder[key] = json.loads(json.dumps(other[name]))
        elif isinstance(holder, list):
            holder[key:key] = [json.loads(json.dumps(holder[key]))] * draw.choice(
                (1, 3, 50)
            )
        elif isinstance(holder[key], (int, float)):
            holder[key] = holder[key] * draw.choice((-1, 0, 1e-9, 1e9, 3))
    text = json.dumps(document).encode()
    if lines[0].strip() == b"{" and len(lines) > 1:
        return text
    return b"\n".join([*lines[:number], text, *lines[number + 1 :]])


def changed_lines(log: bytes, others: Sequence[bytes], draw: Random) -> bytes:
    """One change of lines: left out, doubled, shuffled, of another log, glued, cut,
    of several ranks."""
    lines = log.split(b"\n")
    start = draw.randrange(len(lines))
    end = min(len(lines), start + draw.choice((1, 1, 2, 8, 60)))
    kind = draw.randrange(9)
    if kind == 0:
        lines[start:end] = []
    elif kind == 1:
        lines[end:end] = lines[start:end] * draw.choice((1, 2, 40))
    elif kind == 2:
        other = draw.choice(others).split(b"\n")
        first = draw.randrange(len(other))
        lines[start:start] = other[first : first + draw.choice((1, 5, 60, 400))]
    elif kind == 3:
        lines[start:end] = [b"".join(lines[start:end])]
    elif kind == 4:
        lines[start] = lines[start][draw.randrange(60) :]
    elif kind == 5:
        mixed = lines[start:end]
        draw.shuffle(mixed)
        lines[start:end] = mixed
    elif kind == 6:
        lines = [b"[rank%d]:%s" % (draw.randrange(3), line) for line in lines]
    elif kind == 7:
        ending = draw.choice((b"\r", b"\r\n\n", b"\n\r", b"\0", b" ", b"\t"))
        lines[start:end] = [line + ending for line in lines[start:end]]
    else:
        at = draw.randrange(len(lines[start]) + 1)
        lines[start] = (
            lines[start][:at]
            + draw.choice(INSERTED) * draw.choice((1, 1, 1, 300))
            + lines[start][at:]
        )
    return b"\n".join(lines)


def damaged_log(
    logs: Sequence[bytes], draw: Random, longest: int = 30_000
) -> bytes:
    """A stretch of one of the logs with some changes."""
    log = draw.choice(logs)
    begin = 0 if draw.random() < 0.3 else draw.randrange(len(log) + 1)
    log = log[begin : begin + draw.randrange(100, longest)]
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        kind = draw.random()
        if kind < 0.1:
            log = changed_numbers(log, draw)
        else:
            log = (
                changed(log, draw)
                if kind < 0.55
                else changed_lines(log, logs, draw)
            )
    return log
