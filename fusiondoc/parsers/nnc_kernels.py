"""Kernels of NNC: the loop nests and the CUDA code that torch's JIT log prints of a TensorExprGroup.

``kernel`` prints the group's graph (DUMP), then its loop nest stage by stage and as it is in the end (DEBUG:
``Original Stmt:``, ``after inline{`` ..., ``Final Stmt:``); ``cuda_codegen`` the CUDA code (DEBUG). Source:
torch/csrc/jit/tensorexpr/kernel.cpp and cuda_codegen.cpp. A kernel is printed once, when it is compiled;
launches and times are never printed.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from fusiondoc.parsers.facts import Facts, PrintedKernel
from fusiondoc.parsers.plan import PlanGroup

FILES = ("kernel", "cuda_codegen")

LOOP_NEST = "nnc_ir"
STAGES = "nnc_stages"
CUDA = "nnc_cuda"

_FINAL = b"Final Stmt:"
_FIRST = b"Original Stmt:"
_FUSED = b"Fused TE CUDA kernel:"
_EXTENTS = re.compile(rb"gpu_(block|thread)_extents: \((.*)\)$")
_FUNCTION = re.compile(rb"\bvoid (\w+)\(")

_LONGEST_NAME = 40
"""Longer names torch cuts, with a hash behind them (generateNameForGraph of subgraph_utils.cpp)."""

_BUDGET = 48 << 20
"""Bytes of compressed text that are kept; kernels beyond have none."""


class NncKernels:
    """Takes the lines of ``kernel`` and ``cuda_codegen`` in order."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._graph: PlanGroup | None = None
        self._began = 0
        self._known: dict[tuple[bytes, bytes], PrintedKernel] = {}
        self._made: PrintedKernel | None = None
        self._title: bytes | None = None
        self._body: list[bytes] | None = None
        self._start = 0
        self._stages: list[bytes] = []
        self._room = _BUDGET

    def begins(self, pos: int, graph: PlanGroup | None) -> None:
        """A kernel is made from this graph; what follows is of it."""
        self._graph, self._began = graph, pos
        self._made = None
        self._stages.clear()
        self._title = self._body = None

    def take(self, name: str, lines: list[bytes], cut: int, pos: int) -> None:
        """Consecutive lines of one of FILES; a message may come in several pieces."""
        if name == "kernel":
            for offset, line in enumerate(lines):
                self._statement(line[cut:], pos + offset)
        elif name == "cuda_codegen":
            for offset, line in enumerate(lines):
                self._cuda(line[cut:], pos + offset)

    def _statement(self, text: bytes, pos: int) -> None:
        """A loop nest is a block in braces, under its title or behind it."""
        if self._body is None:
            if not text.endswith(b"{") or text.startswith(b" "):
                if text:
                    self._title = text
                    self._start = pos
                return
            title = text[:-1].strip()
            if title:
                self._title, self._start = title, pos
            self._body = [b"{"]
            return
        self._body.append(text)
        if text == b"}":
            title, body = self._title or b"", b"\n".join(self._body)
            self._title = self._body = None
            self._stage(title, body)

    def _stage(self, title: bytes, body: bytes) -> None:
        if title == _FIRST:
            self._stages.clear()
        self._stages.append(b"// " + title.rstrip(b":") + b"\n" + body)
        if title == _FINAL:
            kernel = self._kernel(body)
            if not kernel.texts:
                self._keep(kernel, LOOP_NEST, body)
                self._keep(kernel, STAGES, b"\n\n".join(self._stages))
            self._stages.clear()

    def _cuda(self, text: bytes, pos: int) -> None:
        if text == _FUSED:
            self._title, self._body, self._start = _FUSED, [], pos
            return
        if self._title != _FUSED or self._body is None:
            return
        extents = _EXTENTS.match(text)
        if extents is None:
            self._body.append(text)
            return
        if self._made is None or CUDA in self._made.texts:
            code = b"\n".join(self._body)
            function = _FUNCTION.search(code)
            plain = code.replace(function.group(1), b"") if function else code
            self._kernel(plain)
        kernel = self._made
        assert kernel is not None
        if CUDA not in kernel.texts and self._body:
            code = b"\n".join(self._body).strip(b"\n")
            self._keep(kernel, CUDA, code)
            function = _FUNCTION.search(code)
            if function is not None:
                kernel.name = function.group(1).decode("ascii", "replace")
        self._body = []
        size = _dimensions(extents.group(2))
        if extents.group(1) == b"block":
            kernel.grid = size
        else:
            kernel.block = size
            self._title = self._body = None

    def _kernel(self, code: bytes) -> PrintedKernel:
        """The kernel of the graph that was printed last: a new one unless an equal graph had this code."""
        graph = self._graph
        key = (graph.canonical if graph is not None else b"", blake2b(code, digest_size=16).digest())
        kernel = self._known.get(key)
        if kernel is None:
            kernel = self._known[key] = PrintedKernel(_name(graph), graph)
            self._facts.printed_kernels.append(kernel)
        kernel.compiles += 1
        kernel.lines.append(self._began if graph is not None else self._start)
        self._made = kernel
        return kernel

    def _keep(self, kernel: PrintedKernel, option: str, text: bytes) -> None:
        if self._room <= 0:
            return
        kernel.keep(option, text)
        self._room -= len(kernel.texts[option])
        if option != STAGES:
            kernel.main = option


def _name(graph: PlanGroup | None) -> str:
    """The name that torch gives the kernel, which only CUDA code has in print: from the operators."""
    if graph is None:
        return "fused"
    words = [op.split("::")[1] for op, _ in graph.body if op.startswith("aten::")]
    return "_".join(["fused", *words])[:_LONGEST_NAME]


def _dimensions(text: bytes) -> tuple[int, int, int] | None:
    """``1024, 2`` -> (1024, 2, 1); None where a size is not a number (dynamic shapes)."""
    sizes = []
    for word in text.split(b","):
        found = re.match(rb"\s*(\d{1,18})(?:ll)?\s*\Z", word)
        if found is None:
            return None
        sizes.append(int(found.group(1)))
    if not 1 <= len(sizes) <= 3:
        return None
    sizes += [1] * (3 - len(sizes))
    return sizes[0], sizes[1], sizes[2]
