"""Kernels of NNC in torch's JIT log: the loop nests and the CUDA code of a
TensorExprGroup.

``kernel`` prints the group's graph (DUMP), then its loop nest at each stage and its
final form (DEBUG: ``Original Stmt:``, ``after inline{`` ..., ``Final Stmt:``);
``cuda_codegen`` prints the CUDA code (DEBUG). Source:
torch/csrc/jit/tensorexpr/kernel.cpp and cuda_codegen.cpp. A kernel is printed once,
when it is compiled; launches and times are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusiondoc.numbers import whole_number
from fusiondoc.parsers.facts import Facts, PrintedKernel
from fusiondoc.parsers.jit.plan import GroupGraph

LOOP_NEST = "nnc_ir"
STAGES = "nnc_stages"
CUDA = "nnc_cuda"

_FINAL = b"Final Stmt:"
_FIRST = b"Original Stmt:"
_FUSED = b"Fused TE CUDA kernel:"
_EXTENTS = re.compile(rb"gpu_(block|thread)_extents: \((.*)\)$")
_FUNCTION = re.compile(rb"\bvoid (\w+)\(")

_LONGEST_NAME = 40
"""Longer names are cut by torch and end with a hash (generateNameForGraph of
subgraph_utils.cpp)."""


class NncKernels:
    """Reads the lines of torch's files ``kernel`` and ``cuda_codegen`` in order."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[bytes, PrintedKernel] = {}
        self._made: PrintedKernel | None = None
        self._title: bytes | None = None
        self._body: list[bytes] | None = None
        self._start = 0
        self._stages: list[bytes] = []

    def begins(self, pos: int, graph: GroupGraph | None) -> None:
        """Record that a kernel is compiled from this graph; the lines that follow
        belong to it. NNC compiles equal graphs separately; their code differs only
        in names, so they are one kernel here."""
        self._stages.clear()
        self._title = self._body = None
        self._made = None
        if graph is not None:
            self._made = self._kernel(graph.canonical, graph, pos)

    def nest_lines(self, pos: int, payloads: Sequence[bytes]) -> None:
        """Read consecutive lines of ``kernel``; a message may come in several
        pieces."""
        for offset, payload in enumerate(payloads):
            self._statement(payload, pos + offset)

    def cuda_lines(self, pos: int, payloads: Sequence[bytes]) -> None:
        """Read consecutive lines of ``cuda_codegen``."""
        for offset, payload in enumerate(payloads):
            self._cuda(payload, pos + offset)

    def _statement(self, text: bytes, pos: int) -> None:
        """Read a line of a loop nest: a block in braces, below its title or on the
        same line."""
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
            kernel = self._made or self._kernel(body, None, self._start)
            if LOOP_NEST not in kernel.texts:
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
        size = _dimensions(extents.group(2))
        if extents.group(1) == b"block":
            self._cuda_code(b"\n".join(self._body).strip(b"\n"))
            self._body = []
            if self._made is not None:
                self._made.grid = size
        else:
            if self._made is not None:
                self._made.block = size
            self._title = self._body = None

    def _cuda_code(self, code: bytes) -> None:
        function = _FUNCTION.search(code)
        if self._made is None:
            # Without the graph: the name of the function has a number that is
            # different every time.
            plain = code.replace(function.group(1), b"") if function else code
            self._made = self._kernel(plain, None, self._start)
        if CUDA not in self._made.texts:
            self._keep(self._made, CUDA, code)
            if function is not None:
                self._made.name = function.group(1).decode("ascii", "replace")

    def _kernel(
        self, key: bytes, graph: GroupGraph | None, pos: int
    ) -> PrintedKernel:
        kernel = self._known.get(key)
        if kernel is None:
            kernel = self._known[key] = PrintedKernel(_name(graph), graph)
            self._facts.printed_kernels.append(kernel)
        kernel.compiles += 1
        kernel.lines.append(pos)
        return kernel

    def _keep(self, kernel: PrintedKernel, option: str, text: bytes) -> None:
        kept = self._facts.texts.keep(text)
        if kept is None:
            return
        kernel.texts[option] = kept
        if option == CUDA or (option == LOOP_NEST and kernel.main is None):
            kernel.main = option


def _name(graph: GroupGraph | None) -> str:
    """Return the name that torch gives the kernel, derived from the operators; it
    is printed only in CUDA code."""
    if graph is None:
        return "fused"
    words = []
    for op in graph.operators:
        if op.startswith("aten::"):
            words.append(op.split("::")[1])
    return "_".join(["fused", *words])[:_LONGEST_NAME]


def _dimensions(text: bytes) -> tuple[int, int, int] | None:
    """Return (1024, 2, 1) for ``1024, 2``; None if a size is not a number (dynamic
    shapes)."""
    sizes = []
    for word in text.split(b","):
        found = re.match(rb"\s*(\d+)(?:ll)?\s*\Z", word)
        size = whole_number(found.group(1)) if found is not None else None
        if size is None:
            return None
        sizes.append(size)
    if not 1 <= len(sizes) <= 3:
        return None
    sizes += [1] * (3 - len(sizes))
    return sizes[0], sizes[1], sizes[2]
