"""Partitions of oneDNN Graph, from the lines that ONEDNN_VERBOSE prints to stdout
when a partition is compiled and run.

``onednn_verbose,v1,graph,exec,cpu,100002,matmul_post_ops,aten::linear;aten::relu,,in0_f32:0:...,fpm:strict,
matmul_t,dnnl_backend,0.0119629``: engine, partition, kind, operators, formats,
tensors, ..., milliseconds (src/graph/utils/verbose.cpp of oneDNN 3). ``v1`` is
missing before 3.5 and a time stamp may follow it; oneDNN Graph on its own (torch
1.12 to 2.0) prints ``onednn_graph_verbose,exec,...`` under ONEDNN_GRAPH_VERBOSE. A
partition runs its primitives one after the other in the thread that prints its
line. So the primitives printed directly before it belong to it if they fit into its
time and can compute its operators: they name the implementation
(``brg_matmul:avx512_core``, ``ref:any``). Their lines have no component before
oneDNN 3 (torch 1.12 to 2.0).
"""

from __future__ import annotations

import re
from sys import intern
from typing import NamedTuple

from fusiondoc.fusers.onednn import takes
from fusiondoc.numbers import figure, whole_numbers
from fusiondoc.parsers.facts import Facts, PrintedKernel

DUMP = "onednn_verbose"

_MOST_TEXT = 20
"""Number of different lines that are kept for one partition."""

_HEAD = re.compile(
    rb"(?:onednn|dnnl)_verbose,(?:v\d+,)?(?:\d+\.\d+,)?graph,(exec|compile[^,]*),(.*)$"
)
_GRAPH_HEAD = re.compile(
    rb"(?:onednn|dnnl)_graph_verbose,(?:\d+\.\d+,)?(exec|compile[^,]*),(.*)$"
)
_PRIMITIVE = re.compile(
    rb"(?:onednn|dnnl)_verbose,(?:v\d+,)?(?:\d+\.\d+,)?(?:primitive,)?exec,\w+,(\w+),([^,]*),.*,([\d.e+-]+)$"
)
_TENSOR = re.compile(
    rb"(in|out)\d{1,9}_\w+:\d+:\w+:\w+:(\d{1,18}(?:x\d{1,18})*|)(?::|$)"
)


_MOST_PRIMITIVES = 64
"""Number of primitives of one partition."""


class _Primitive(NamedTuple):
    """A primitive that ran."""

    kind: str
    implementation: str
    ms: float


class _Line(NamedTuple):
    partition: bytes
    kind: bytes
    operators: tuple[str, ...]
    tensors: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
    ms: float | None
    implementation: str | None


class Partitions:
    """Reads the lines that begin with one of the fusers' stdout marks."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[tuple[bytes, tuple[str, ...], object], PrintedKernel] = {}
        self._texts: dict[int, list[bytes]] = {}
        self._ran: list[_Primitive] = []
        """Primitives since the last run of a partition."""

    def take(self, pos: int, line: bytes) -> None:
        found = _HEAD.match(line) or _GRAPH_HEAD.match(line)
        if found is None:
            self._note_primitive(line)
            return
        read = _read(found.group(2))
        if read is None:
            return
        # A partition is compiled again for other sizes: that is another kernel.
        key = (read.partition, read.operators, read.tensors)
        kernel = self._known.get(key)
        if kernel is None:
            kernel = PrintedKernel(
                intern(read.kind.decode("utf-8", "replace")),
                operators=read.operators,
                tensors=read.tensors,
            )
            self._known[key] = kernel
            self._facts.printed_kernels.append(kernel)
            kernel.main = DUMP
        kernel.lines.append(pos)
        if found.group(1) == b"exec":
            kernel.launches += 1
            if read.ms is not None:
                kernel.ms.append(read.ms)
            kernel.implementation = (
                self._implementation(read) or kernel.implementation
            )
            self._ran.clear()
        else:
            kernel.compiles += 1
        self._keep(kernel, line)

    def close(self) -> None:
        """Drop the state that only further lines need, to free memory for the
        rows."""
        self._known.clear()
        self._texts.clear()

    def _note_primitive(self, line: bytes) -> None:
        found = _PRIMITIVE.match(line)
        if found is None:
            return
        ms = figure(found.group(3))
        if ms is None:
            return
        kind, name = (found.group(n).decode("utf-8", "replace") for n in (1, 2))
        self._ran.append(_Primitive(kind, name, ms))
        del self._ran[:-_MOST_PRIMITIVES]

    def _implementation(self, read: _Line) -> str | None:
        """Return the implementations of the primitives that the partition ran,
        without copies into another layout; if there are none, the name of the
        partition's own executor."""
        kinds = _kinds_of(read.operators)
        left = (read.ms or 0.0) * 1.001 + 1e-3
        own: list[_Primitive] = []
        for one in reversed(self._ran):
            left -= one.ms
            if left < 0 or not (one.kind in kinds or one.kind == "reorder"):
                break
            own.append(one)
        names = [one for one in reversed(own) if one.kind != "reorder"] or own[:1]
        if not names:
            return read.implementation
        several = len({one.kind for one in names}) > 1
        shown = []
        for one in names:
            if several:
                shown.append(f"{one.kind} {one.implementation}")
            else:
                shown.append(one.implementation)
        return " + ".join(dict.fromkeys(shown))

    def _keep(self, kernel: PrintedKernel, line: bytes) -> None:
        """Keep a line that differs from the kept lines in more than the time."""
        texts = self._texts.setdefault(id(kernel), [])
        plain = line.rpartition(b",")[0]
        if plain not in texts and len(texts) < _MOST_TEXT:
            texts.append(plain)
            kernel.texts[DUMP] = b"\n".join(texts).decode("utf-8", "replace")


def _read(text: bytes) -> _Line | None:
    fields = text.split(b",")
    if len(fields) < 7 or not fields[1].isdigit():
        return None
    inputs: list[tuple[int, ...]] = []
    outputs: list[tuple[int, ...]] = []
    for tensor in fields[5].split():
        found = _TENSOR.match(tensor)
        if found is not None:
            sizes = tuple(whole_numbers(found.group(2).split(b"x")))
            (inputs if found.group(1) == b"in" else outputs).append(sizes)
    operators = []
    for one in fields[3].split(b";"):
        if one:
            operators.append(intern(one.decode("utf-8", "replace")))
    # "fpm:strict,conv_fwd_t,dnnl_backend,0.01" since oneDNN 3.5; before, nothing is
    # in between.
    name = fields[-3].decode("utf-8", "replace") if len(fields) >= 10 else ""
    return _Line(
        fields[1],
        fields[2],
        tuple(operators),
        (tuple(inputs), tuple(outputs)),
        figure(fields[-1]),
        intern(name) if name and ":" not in name else None,
    )


def _kinds_of(operators: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of primitives that may compute these operators, which torch
    names as its graph does (graph_helper.cpp)."""
    found = set(takes.FOR_ANY_OPERATOR)
    for name in operators:
        found.update(takes.TAKES.get(name, ()))
    return frozenset(found)
