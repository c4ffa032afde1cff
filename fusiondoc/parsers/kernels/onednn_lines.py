"""Partitions of oneDNN Graph: what ONEDNN_VERBOSE prints to stdout when one is compiled and run.

``onednn_verbose,v1,graph,exec,cpu,100002,matmul_post_ops,aten::linear;aten::relu,,in0_f32:0:...,fpm:strict,
matmul_t,dnnl_backend,0.0119629``: engine, partition, kind, operators, formats, tensors, ..., milliseconds
(src/graph/utils/verbose.cpp of oneDNN 3). ``v1`` is missing before 3.5 and a time stamp may follow it; oneDNN
Graph on its own (torch 1.12 to 2.0) prints ``onednn_graph_verbose,exec,...`` under ONEDNN_GRAPH_VERBOSE.
Lines of primitives are not tied to a partition: they name none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fusiondoc.parsers.facts import Facts, PrintedKernel

MARKERS = (b"onednn_verbose,", b"onednn_graph_verbose,", b"dnnl_verbose,", b"dnnl_graph_verbose,")

DUMP = "onednn_verbose"

_MOST_TEXT = 20
"""Different lines that are kept of one partition."""

_HEAD = re.compile(rb"(?:onednn|dnnl)_verbose,(?:v\d+,)?(?:\d+\.\d+,)?graph,(exec|compile[^,]*),(.*)$")
_GRAPH_HEAD = re.compile(rb"(?:onednn|dnnl)_graph_verbose,(?:\d+\.\d+,)?(exec|compile[^,]*),(.*)$")
_TENSOR = re.compile(rb"(in|out)\d{1,9}_\w+:\d+:\w+:\w+:(\d{1,18}(?:x\d{1,18})*|)(?::|$)")


class _Line(NamedTuple):
    partition: bytes
    kind: bytes
    operators: tuple[str, ...]
    tensors: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
    ms: float | None


class OneDnnPartitions:
    """Takes the lines that begin with one of MARKERS."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[tuple[bytes, tuple[str, ...], object], PrintedKernel] = {}
        self._texts: dict[int, list[bytes]] = {}

    def take(self, line: bytes, pos: int) -> None:
        found = _HEAD.match(line) or _GRAPH_HEAD.match(line)
        if found is None:
            return
        read = _read(found.group(2))
        if read is None:
            return
        # The same partition for other sizes is compiled anew: a kernel of its own.
        key = (read.partition, read.operators, read.tensors)
        kernel = self._known.get(key)
        if kernel is None:
            kernel = PrintedKernel(
                read.kind.decode("utf-8", "replace"), operators=read.operators, tensors=read.tensors
            )
            self._known[key] = kernel
            self._facts.printed_kernels.append(kernel)
            kernel.main = DUMP
        kernel.lines.append(pos)
        if found.group(1) == b"exec":
            kernel.launches += 1
            if read.ms is not None:
                kernel.ms.append(read.ms)
        else:
            kernel.compiles += 1
        self._keep(kernel, line)

    def _keep(self, kernel: PrintedKernel, line: bytes) -> None:
        """Lines that differ in more than the time."""
        texts = self._texts.setdefault(id(kernel), [])
        plain = line.rpartition(b",")[0]
        if plain not in texts and len(texts) < _MOST_TEXT:
            texts.append(plain)
            kernel.keep(DUMP, b"\n".join(texts))


def _read(text: bytes) -> _Line | None:
    fields = text.split(b",")
    if len(fields) < 7 or not fields[1].isdigit():
        return None
    inputs: list[tuple[int, ...]] = []
    outputs: list[tuple[int, ...]] = []
    for tensor in fields[5].split():
        found = _TENSOR.match(tensor)
        if found is not None:
            sizes = tuple(int(n) for n in found.group(2).split(b"x") if n)
            (inputs if found.group(1) == b"in" else outputs).append(sizes)
    operators = tuple(one.decode("utf-8", "replace") for one in fields[3].split(b";") if one)
    try:
        ms: float | None = float(fields[-1])
    except ValueError:
        ms = None
    if ms is not None and ms - ms != 0:
        ms = None
    return _Line(fields[1], fields[2], operators, (tuple(inputs), tuple(outputs)), ms)
