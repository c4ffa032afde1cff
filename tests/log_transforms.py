"""Changes of the raw bytes of a log: such that mean nothing (other names, numbers,
lines, order), and real ones. Nothing here uses the parsers."""

from __future__ import annotations

import random
import re

FRAME = re.compile(
    rb"======= Codegen output for kernel: kernel\d+ =======\n.*?\n======================================\n",
    re.S,
)
SOURCE = re.compile(rb"(?<=# )(\S+?):(\d+):(\d+)(?=$|[)])", re.M)


def rename_values(log: bytes, rng: random.Random) -> bytes:
    """Every ``%name`` of the IR gets another name, one to one."""
    names = sorted(set(re.findall(rb"%[\w.]+", log)))
    new = [b"%%v%d" % n for n in range(len(names))]
    rng.shuffle(new)
    table = dict(zip(names, new))
    return re.sub(rb"%[\w.]+", lambda m: table[m[0]], log)


def renumber_groups(log: bytes, rng: random.Random) -> bytes:
    """In every printed graph the groups get other numbers, and their bodies stand
    in the new order."""
    lines = log.split(b"\n")
    out: list[bytes] = []
    at = 0
    while at < len(lines):
        start = re.match(
            rb"(\[\w+ \w+\.cpp:\d+\] )(?:Before Compilation|After TExprFuser|Optimized Graph): $",
            lines[at],
        )
        if start is None:
            out.append(lines[at])
            at += 1
            continue
        end = at + 1
        while (
            end < len(lines)
            and lines[end].startswith(start[1])
            and lines[end] != lines[at]
        ):
            end += 1
        out += _renumbered(lines[at:end], start[1], rng)
        at = end
    return b"\n".join(out)


_REFERENCE = re.compile(
    rb"prim::(CudaFusionGroup|FallbackGraph|TensorExprGroup)_(\d+)\b"
)


def _renumbered(
    block: list[bytes], prefix: bytes, rng: random.Random
) -> list[bytes]:
    starts = [
        n for n, line in enumerate(block) if line.startswith(prefix + b"with ")
    ]
    heads = [_REFERENCE.search(block[n]) for n in starts]
    if (
        not starts
        or any(b"DifferentiableGraph" in line for line in block)
        or None in heads
    ):
        return block
    numbers = [int(head[2]) for head in heads if head]
    new = numbers[:]
    rng.shuffle(new)
    table = dict(zip(numbers, new))
    body = block[: starts[0]]
    sections = [block[a:b] for a, b in zip(starts, [*starts[1:], len(block)])]
    # What stands behind the last body (an empty line) stays there.
    tail = []
    while sections[-1] and sections[-1][-1] == prefix:
        tail.append(sections[-1].pop())
    order = sorted(range(len(sections)), key=lambda n: new[n])
    text = [
        line
        for part in [body, *(sections[n] for n in order), tail]
        for line in part
    ]
    return [
        _REFERENCE.sub(
            lambda m: b"prim::%s_%d" % (m[1], table.get(int(m[2]), int(m[2]))), line
        )
        for line in text
    ]


def renumber_kernels(log: bytes, rng: random.Random) -> bytes:
    """``kernel3`` becomes ``kernel18``; the numbers of values in the code are
    others too."""
    numbers = sorted({int(n) for n in re.findall(rb"\bkernel(\d+)\b", log)})
    new = rng.sample(range(1, 10 * len(numbers) + 10), len(numbers))
    table = dict(zip(numbers, new))
    log = re.sub(rb"\bkernel(\d+)\b", lambda m: b"kernel%d" % table[int(m[1])], log)

    def other_values(frame: re.Match[bytes]) -> bytes:
        add = rng.randrange(1, 500)
        return re.sub(
            rb"(?<![\w.])([Tidb])(\d+)\b",
            lambda m: b"%s%d" % (m[1], int(m[2]) + add),
            frame[0],
        )

    return FRAME.sub(other_values, log)


def shift_lines(log: bytes, rng: random.Random) -> bytes:
    """Lines are inserted into every source file at random places, and the files lie
    in another folder."""
    last: dict[bytes, int] = {}
    for file, line, _ in SOURCE.findall(log):
        last[file] = max(last.get(file, 0), int(line))
    moved = {}
    for file, lines in last.items():
        offsets, offset = [], 0
        for _ in range(lines + 1):
            offset += rng.choice((0, 0, 0, 1, rng.randrange(40)))
            offsets.append(offset)
        moved[file] = offsets
    folder = rng.choice((b"", b"somewhere/else/"))

    def other(match: re.Match[bytes]) -> bytes:
        file, line = match[1], int(match[2])
        place = file if file.startswith(b"<") else folder + file
        return b"%s:%d:%s" % (place, line + moved[file][line], match[3])

    return SOURCE.sub(other, log)


def other_addresses(log: bytes, rng: random.Random) -> bytes:
    """Pointers of another process."""
    found = sorted(set(re.findall(rb"0x[0-9a-f]{9,}", log)))
    table = dict(zip(found, rng.sample(range(1 << 44, 1 << 47), len(found))))
    return re.sub(rb"0x[0-9a-f]{9,}", lambda m: b"0x%x" % table[m[0]], log)


MEANINGLESS = (
    rename_values,
    renumber_groups,
    renumber_kernels,
    shift_lines,
    other_addresses,
)


def slow_down(log: bytes, kernel: bytes, factor: float) -> bytes:
    """Every launch of one kernel takes ``factor`` times as long."""

    def slower(match: re.Match[bytes]) -> bytes:
        return b"%s run in %.6g ms, achieved: %.6g GB/s" % (
            match[1],
            float(match[2]) * factor,
            float(match[3]) / factor,
        )

    return re.sub(
        rb"(?m)^(%s) run in (\S+) ms, achieved: (\S+) GB/s$" % kernel, slower, log
    )
