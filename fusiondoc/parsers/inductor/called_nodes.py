"""The calls of a generated module as final nodes: the buffers that each reads and
writes, and the reason why it is a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.fusers.inductor.compilation import (
    Access,
    Buffer,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    Line,
)
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.parsers.inductor.cpp_loops import loop_nests
from fusiondoc.parsers.inductor.generated_code import GeneratedModule
from fusiondoc.parsers.inductor.kernel_definitions import Definition, Parameter
from fusiondoc.parsers.inductor.tensor_types import element_size
from fusiondoc.parsers.inductor.text_lines import TextLines
from fusiondoc.parsers.inductor.wrapper_calls import WrapperCall

_KINDS = {
    "template": FinalKind.TEMPLATE,
    "foreach": FinalKind.FOREACH,
    "mixed order": FinalKind.MIXED_ORDER,
    "user": FinalKind.CALL,
}
_VIEWS = (
    "aten.view_as_real",
    "aten.view_as_complex",
    "aten.view.dtype",
    "aten._conj",
    "aten._neg_view",
)
_LIBRARIES = (
    "extern_kernels.",
    "mkldnn.",
    "mkl.",
    "onednn.",
    "quantized.",
    "_quantized.",
)
_SEEDS = ("aten.randint.low_out", "inductor_ops.", "inductor_prims.")
_COLLECTIVES = ("_c10d_functional", "c10d", "symm_mem")


def call_kind(target: str) -> CallKind:
    """Return the reason why a call of the wrapper is not one of Inductor's kernels,
    by its target."""
    if target == "sum":
        return CallKind.EAGER_SUM
    if target.startswith("Tensor."):
        if target == "Tensor.copy_":
            return CallKind.COPY
        return CallKind.UNKNOWN
    for starts, kind in (
        (_LIBRARIES, CallKind.LIBRARY),
        (_SEEDS, CallKind.RANDOM_SEED),
        (_COLLECTIVES, CallKind.COLLECTIVE),
        (_VIEWS, CallKind.VIEW),
        (("aten.", "prims."), CallKind.NO_LOWERING),
    ):
        if target.startswith(starts):
            return kind
    if "." in target:
        return CallKind.CUSTOM
    return CallKind.UNKNOWN


class NestTraffic(NamedTuple):
    """The buffers that a loop nest of a C++ function reads and writes."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


class _Calls:
    """Makes the nodes of a module in the order of its calls."""

    def __init__(self, module: GeneratedModule, lines: TextLines | None) -> None:
        self._kernels = module.kernels
        self._wrapper = module.wrapper
        self._lines = lines
        self._written: set[str] = set(module.wrapper.inputs)
        """Buffers that were written so far."""
        self._elements: dict[str, list[str]] = {}
        for element, whole in module.wrapper.elements.items():
            self._elements.setdefault(whole, []).append(element)
        self._seen: Counter[str] = Counter()
        self.nodes: list[FinalNode] = []
        self.nests: dict[int, list[NestTraffic]] = {}
        self.names_before: dict[int, set[str]] = {}

    def take_all(self) -> None:
        """Make the nodes of all calls."""
        for index, step in enumerate(self._wrapper.steps):
            kernel = self._kernels.get(step.target)
            nests = []
            if kernel is not None and kernel.kind == "cpp":
                nests = self._nests(step, kernel)
            if nests:
                self.nests[index] = nests
            self.nodes.append(self._node(step, kernel, nests))

    def _node(
        self,
        step: WrapperCall,
        kernel: Definition | None,
        nests: Sequence[NestTraffic],
    ) -> FinalNode:
        if step.writes:
            reads, writes = self._of_call(step)
        else:
            reads, writes = self._of_kernel(step, kernel, nests)
        self.names_before[len(self.nodes)] = self._names_before(writes)
        self._written.update(access.buffer for access in writes)
        is_call = kernel is None or kernel.kind == "user"
        if step.target.startswith(("triton_", "cpp_fused_")):
            is_call = False  # its definition is truncated
        if kernel is not None and is_call:
            call = CallKind.USER_TRITON
        else:
            call = call_kind(step.target)
        if kernel is not None:
            operators = tuple(node.name for node in kernel.operators)
        else:
            operators = ()
        return FinalNode(
            name=self._name(step.target),
            members=(),
            kind=FinalKind.CALL if is_call else self._kind(step, kernel),
            scheduler_class=None,
            operators=operators,
            reads=tuple(reads),
            writes=tuple(writes),
            read_bytes=self._bytes(reads),
            write_bytes=self._bytes(writes),
            kernel=step.target,
            call=call if is_call else None,
            lines=self._line(step.line),
        )

    def _name(self, target: str) -> str:
        self._seen[target] += 1
        number = self._seen[target]
        if number == 1:
            return target
        return f"{target}#{number}"

    def _kind(self, step: WrapperCall, kernel: Definition | None) -> FinalKind:
        if step.mixed_order:
            return FinalKind.MIXED_ORDER
        return _KINDS.get(
            kernel.kind if kernel is not None else "", FinalKind.LOOPS
        )

    def _of_kernel(
        self,
        step: WrapperCall,
        kernel: Definition | None,
        nests: Sequence[NestTraffic],
    ) -> tuple[list[Access], list[Access]]:
        """Return the distinct buffers that a kernel reads, and those that it
        writes."""
        reads: dict[str, Access] = {}
        writes: dict[str, Access] = {}
        in_nests: set[str] = set()
        for nest in nests:
            in_nests.update(nest.reads)
        for name, parameter in _pointers(step, kernel):
            before = self._held(name) if parameter.reads else None
            if nests and parameter.writes and before not in in_nests:
                before = None  # memory of a buffer that is no longer read
            if before is not None:
                reads[before] = self._access(before, parameter.loads, kernel)
            if parameter.writes:
                writes[name] = self._access(name, parameter.stores, kernel)
        return list(reads.values()), list(writes.values())

    def _access(self, name: str, times: int, kernel: Definition | None) -> Access:
        """Return an access of a kernel. Each load or store moves at most one
        element in each iteration of the loops."""
        buffer = self._wrapper.buffers.get(name)
        if (
            buffer is None
            or not (buffer.bytes and times)
            or kernel is None
            or kernel.elements is None
        ):
            return Access(name)
        size = element_size((buffer.type or "").partition("[")[0])
        most = None if size is None else size * times * kernel.elements
        return Access(
            name, most if most is not None and most < buffer.bytes else None
        )

    def _nests(self, step: WrapperCall, kernel: Definition) -> list[NestTraffic]:
        """Return the loop nests of a C++ function, with the buffers that each reads
        and writes."""
        buffers = {}
        for name, parameter in _pointers(step, kernel):
            buffers[parameter.name] = name
        held = {name: self._held(name) or name for name in buffers.values()}
        made = []
        for nest in loop_nests(kernel.code):
            reads = []
            for name in nest.reads:
                if name in buffers:
                    reads.append(held[buffers[name]])
            writes = []
            for name in nest.writes:
                if name in buffers:
                    writes.append(buffers[name])
            made.append(
                NestTraffic(
                    tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
                )
            )
            # Later nests read this nest's results.
            held.update((name, name) for name in writes)
        return made

    def _held(self, name: str) -> str | None:
        """Return the buffer whose contents are read under this name. For a buffer
        that reuses memory it is the previous buffer, if that was written; None if
        nothing was written."""
        for _ in range(len(self._wrapper.reuses) + 1):
            if name in self._written or name in self._wrapper.elements:
                return name
            before = self._wrapper.reuses.get(name)
            if before is None:
                buffer = self._wrapper.buffers.get(name)
                is_part = buffer is not None and buffer.part_of is not None
                if is_part or self._is_whole_of_parts(name):
                    return name
                return None
            name = before
        return None

    def _names_before(self, writes: Sequence[Access]) -> set[str]:
        """Return the previous names of the memory that a call writes, as far as
        nothing was written under them."""
        found: set[str] = set()
        for access in writes:
            name = self._wrapper.reuses.get(access.buffer)
            while (
                name is not None and name not in self._written and name not in found
            ):
                found.add(name)
                name = self._wrapper.reuses.get(name)
        return found

    def _is_whole_of_parts(self, name: str) -> bool:
        """True if something was written into the memory of this buffer under
        another name."""
        parts = (
            part for part in self._wrapper.buffers.values() if part.part_of == name
        )
        return any(part.name in self._written for part in parts)

    def _of_call(self, step: WrapperCall) -> tuple[list[Access], list[Access]]:
        reads = []
        for name in map(self._held, filter(None, step.reads)):
            if name is not None:
                reads.append(name)
        writes: list[str] = []
        for name in step.writes:
            writes += self._elements.get(name, [name])
        return [*map(Access, dict.fromkeys(reads))], [*map(Access, writes)]

    def _bytes(self, accesses: list[Access]) -> int | None:
        return bytes_moved(self._wrapper.buffers, accesses)

    def _line(self, number: int) -> tuple[Line, ...]:
        if self._lines is None:
            return ()
        return (self._lines.line(number),)


def _pointers(
    step: WrapperCall, kernel: Definition | None
) -> Iterator[tuple[str, Parameter]]:
    """Yield the buffers with which a kernel is called, each with its parameter."""
    parameters = kernel.parameters if kernel is not None else ()
    for index, name in enumerate(step.reads):
        if not name or (name.startswith("workspace_") and not step.mixed_order):
            continue
        known = index < len(parameters)
        yield name, parameters[index] if known else Parameter(name, True, False)


def bytes_moved(
    buffers: Mapping[str, Buffer], accesses: Iterable[Access]
) -> int | None:
    """Return the total bytes of accesses; None if the bytes of any are unknown."""
    total = 0
    for access in accesses:
        buffer = buffers.get(access.buffer)
        if access.bytes is not None or buffer is None:
            size = access.bytes
        else:
            size = buffer.bytes
        if size is None:
            return None
        total += size
    return total


class CalledNodes(NamedTuple):
    """The calls of a module."""

    nodes: list[FinalNode]
    """In order; ``members`` is empty."""
    nests: dict[int, list[NestTraffic]]
    """Index of the call of a C++ function -> the loop nests of the function."""
    names_before: dict[int, set[str]]
    """Index of a call -> previous names of the memory that it writes, as far as
    nothing was written under them: one node of a C++ function may have made that
    buffer, and a later node of the same function changes it."""


def called_nodes(
    module: GeneratedModule, lines: TextLines | None = None
) -> CalledNodes:
    """Return the calls of a module in order, as final nodes.

    Args:
        lines: position of the module in a log.
    """
    calls = _Calls(module, lines)
    calls.take_all()
    return CalledNodes(calls.nodes, calls.nests, calls.names_before)


def generated_kernels(
    module: GeneratedModule, lines: TextLines | None = None
) -> list[GeneratedKernel]:
    """Return the kernels that a module defines, with the number of calls of
    each."""
    calls = Counter(step.target for step in module.wrapper.steps)
    kernels = []
    for kernel in module.kernels.values():
        kernels.append(
            GeneratedKernel(
                kernel.name,
                kernel.kind,
                kernel.code,
                calls[kernel.name],
                line=None if lines is None else lines.line(kernel.line),
            )
        )
    return kernels
