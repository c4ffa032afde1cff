"""Facts read off a raw log with plain string searches: what the parsers are
compared with."""

from __future__ import annotations

import functools
import lzma
import re
from collections import Counter
from pathlib import Path

PLAN_HEADERS = (b"Before Compilation: ", b"After TExprFuser: ")
KINDS = (b"CudaFusionGroup", b"TensorExprGroup")

Group = tuple[tuple[tuple[str, "str | None"], ...], tuple[str, ...], int]
"""((op, source)...), input types, place among equal ones in its plan."""


@functools.lru_cache(maxsize=4)
def read(path: Path) -> bytes:
    return (
        lzma.decompress(path.read_bytes())
        if path.suffix == ".xz"
        else path.read_bytes()
    )


def plan_groups(log: bytes) -> list[Group]:
    """Every group of every graph that a fusion pass printed last, in order, equal
    ones numbered: each print is the plan of an executor of its own."""
    found: dict[Group, None] = {}
    equal: Counter = Counter()
    for dump in _plan_dumps(log):
        for section in re.split(rb"(?m)^with ", dump)[1:]:
            if not section.startswith(tuple(b"prim::" + kind for kind in KINDS)):
                continue
            head, _, body = section.partition(b"):\n")
            types = tuple(
                t.decode()
                for t in re.findall(rb"%[\w.]+ : (.*?)(?:,\n|$)", head, flags=re.S)
            )
            ops = []
            for line in body.split(b"\n"):
                node = re.match(
                    rb"  %.* = ([a-z]+::\w+)(?:\[.*\])?\(.*?\)(?:, scope: .*?)?(?: # (.*))?$",
                    line,
                )
                if node and node.group(1) != b"prim::Constant":
                    ops.append(
                        (
                            node.group(1).decode(),
                            node.group(2).decode() if node.group(2) else None,
                        )
                    )
            key = (tuple(ops), types)
            found.setdefault((*key, equal[key]))
            equal[key] += 1
    return list(found)


def _plan_dumps(log: bytes) -> list[bytes]:
    dumps = []
    lines = log.split(b"\n")
    i = 0
    while i < len(lines):
        prefix, _, text = lines[i].partition(b"] ")
        if text in PLAN_HEADERS:
            j = i + 1
            while (
                j < len(lines)
                and lines[j].startswith(prefix + b"] ")
                and lines[j] != lines[i]
            ):
                j += 1
            dumps.append(
                b"\n".join(line[len(prefix) + 2 :] for line in lines[i + 1 : j])
            )
            i = j
        else:
            i += 1
    return dumps


def rejections(log: bytes) -> dict[tuple[str, str, str], list[int]]:
    """(operator, source, text in brackets) -> line numbers, of nodes that make one
    tensor first."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for number, line in enumerate(log.split(b"\n"), 1):
        match = re.search(
            rb"rejecting node(?: from fusion)? \((.+?)\): %[\w.]+ : "
            rb"(?:Tensor|Float|Half|Long|Double|BFloat16)(?:\(.*?\))?(?:, .*)? = (\w+::\w+)\(.* # (.*)$",
            line,
        )
        if match:
            key = (
                match.group(2).decode(),
                match.group(3).decode(),
                match.group(1).decode(),
            )
            found.setdefault(key, []).append(number)
    return found


def bandwidths(log: bytes) -> dict[str, list[tuple[float, float]]]:
    """Kernel -> (ms, GB/s) of each launch."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, ms, gb in re.findall(
        rb"^(kernel\d+) run in (\S+) ms, achieved: (\S+) GB/s$", log, flags=re.M
    ):
        found.setdefault(name.decode(), []).append((float(ms), float(gb)))
    return found


def first_and_rest(
    log: bytes, name: str
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(ms, GB/s) of the launches of a kernel: those right after its source was
    printed (or the very first), and the others."""
    first: list[tuple[float, float]] = []
    rest: list[tuple[float, float]] = []
    fresh = True
    pattern = rb"^(?:======= Codegen output for kernel: %s =======|%s run in (\S+) ms, achieved: (\S+) GB/s)$"
    for ms, gb in re.findall(
        pattern % (name.encode(), name.encode()), log, flags=re.M
    ):
        if ms:
            (first if fresh else rest).append((float(ms), float(gb)))
        fresh = not ms
    return first, rest


def kernels_by_pointer(log: bytes) -> dict[str, set]:
    """GraphCache pointer -> kernels whose bandwidth lines follow a run of it."""
    found: dict[str, set] = {}
    pointer = None
    for line in log.split(b"\n"):
        run = re.search(rb"running GraphCache: (\S+)", line)
        if run:
            pointer = run.group(1).decode()
        launch = re.match(rb"(kernel\d+) run in ", line)
        if launch and pointer:
            found.setdefault(pointer, set()).add(launch.group(1).decode())
    return found


def graphs_by_pointer(log: bytes) -> dict[str, tuple[tuple, tuple]]:
    """GraphCache pointer -> ((op, source)..., input types) of the graph printed
    when it was made."""
    found: dict[str, tuple[tuple, tuple]] = {}
    pattern = (
        rb"GraphCache constructor: (\S+)\n\[DUMP kernel_cache\.cpp:\d+\] GraphCache created for graph\n"
        rb"((?:\[DUMP kernel_cache\.cpp:\d+\] .*\n)+?)\[DUMP kernel_cache\.cpp:\d+\]   return \("
    )
    for pointer, dump in re.findall(pattern, log):
        text = b"\n".join(line.partition(b"] ")[2] for line in dump.split(b"\n"))
        head, _, body = text.partition(b"):\n")
        types = tuple(
            t.decode()
            for t in re.findall(rb"%[\w.]+ : (.*?)(?:,\n|$)", head, flags=re.S)
        )
        ops = []
        for line in body.split(b"\n"):
            node = re.match(
                rb"  %.* = ([a-z]+::\w+)(?:\[.*\])?\(.*?\)(?: # (.*))?$", line
            )
            if node and node.group(1) != b"prim::Constant":
                ops.append(
                    (
                        node.group(1).decode(),
                        node.group(2).decode() if node.group(2) else None,
                    )
                )
        found[pointer.decode()] = tuple(ops), types
    return found
