"""The calls of a generated module as final nodes: what each reads and writes, and why it is a call."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import (
    Access,
    Buffer,
    CallKind,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    Line,
)
from fusiondoc.parsers.inductor.generated_code import GeneratedModule
from fusiondoc.parsers.inductor.kernel_definitions import Definition
from fusiondoc.parsers.inductor.wrapper_calls import Step, Wrapper

_KINDS = {
    "template": FinalKind.TEMPLATE,
    "foreach": FinalKind.FOREACH,
    "mixed order": FinalKind.MIXED_ORDER,
    "user": FinalKind.CALL,
}
_VIEWS = ("aten.view_as_real", "aten.view_as_complex", "aten.view.dtype", "aten._conj", "aten._neg_view")
_LIBRARIES = ("extern_kernels.", "mkldnn.", "mkl.", "onednn.", "quantized.", "_quantized.")
_SEEDS = ("aten.randint.low_out", "inductor_ops.", "inductor_prims.")
_COLLECTIVES = ("_c10d_functional", "c10d", "symm_mem")


def call_kind(target: str) -> CallKind:
    """Why a call of the wrapper is none of Inductor's kernels, by what it calls."""
    if target == "sum":
        return CallKind.EAGER_SUM
    if target.startswith("Tensor."):
        return CallKind.COPY if target == "Tensor.copy_" else CallKind.UNKNOWN
    for starts, kind in (
        (_LIBRARIES, CallKind.LIBRARY),
        (_SEEDS, CallKind.RANDOM_SEED),
        (_COLLECTIVES, CallKind.COLLECTIVE),
        (_VIEWS, CallKind.VIEW),
        (("aten.", "prims."), CallKind.NO_LOWERING),
    ):
        if target.startswith(starts):
            return kind
    return CallKind.CUSTOM if "." in target else CallKind.UNKNOWN


class _Calls:
    """Makes the nodes of a module in the order of its calls."""

    def __init__(self, module: GeneratedModule, log: int | None, first: int) -> None:
        self._kernels = module.kernels
        self._wrapper = module.wrapper
        self._log = log
        self._first = first
        self._written: set[str] = set(module.wrapper.inputs)
        """Buffers that hold something by now."""
        self._elements: dict[str, list[str]] = {}
        for element, whole in module.wrapper.elements.items():
            self._elements.setdefault(whole, []).append(element)
        self._seen: Counter[str] = Counter()

    def nodes(self) -> list[FinalNode]:
        """All calls."""
        return [self._node(step) for step in self._wrapper.steps]

    def _node(self, step: Step) -> FinalNode:
        kernel = self._kernels.get(step.target)
        reads, writes = self._of_kernel(step, kernel) if not step.writes else self._of_call(step)
        self._written.update(writes)
        is_call = kernel is None or kernel.kind == "user"
        if step.target.startswith(("triton_", "cpp_fused_")):
            is_call = False  # its definition is cut off
        call = CallKind.USER_TRITON if kernel is not None and is_call else call_kind(step.target)
        return FinalNode(
            name=self._name(step.target),
            members=(),
            kind=FinalKind.CALL if is_call else self._kind(step, kernel),
            scheduler_class=None,
            operators=tuple(node.name for node in kernel.operators) if kernel is not None else (),
            reads=tuple(map(Access, reads)),
            writes=tuple(map(Access, writes)),
            read_bytes=self._bytes(reads),
            write_bytes=self._bytes(writes),
            kernel=step.target,
            call=call if is_call else None,
            lines=self._line(step.line),
        )

    def _name(self, target: str) -> str:
        self._seen[target] += 1
        number = self._seen[target]
        return target if number == 1 else f"{target}#{number}"

    def _kind(self, step: Step, kernel: Definition | None) -> FinalKind:
        if step.mixed_order:
            return FinalKind.MIXED_ORDER
        return _KINDS.get(kernel.kind if kernel is not None else "", FinalKind.LOOPS)

    def _of_kernel(self, step: Step, kernel: Definition | None) -> tuple[list[str], list[str]]:
        """Buffers that a kernel reads and writes, each once."""
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        parameters = kernel.parameters if kernel is not None else ()
        for index, name in enumerate(step.reads):
            if not name or (name.startswith("workspace_") and not step.mixed_order):
                continue
            known = index < len(parameters)
            if (not known or parameters[index].reads) and (before := self._held(name)) is not None:
                reads[before] = None
            if known and parameters[index].writes:
                writes[name] = None
        return list(reads), list(writes)

    def _held(self, name: str) -> str | None:
        """The buffer whose contents are read under this name: of one that takes over memory it is the one
        before, if anything was written there."""
        for _ in range(len(self._wrapper.reuses) + 1):
            if name in self._written or name in self._wrapper.elements:
                return name
            before = self._wrapper.reuses.get(name)
            if before is None:
                buffer = self._wrapper.buffers.get(name)
                is_part = buffer is not None and buffer.part_of is not None
                return name if is_part or self._is_whole_of_parts(name) else None
            name = before
        return None

    def _is_whole_of_parts(self, name: str) -> bool:
        """Whether something was written into the memory of this buffer under another name."""
        parts = (part for part in self._wrapper.buffers.values() if part.part_of == name)
        return any(part.name in self._written for part in parts)

    def _of_call(self, step: Step) -> tuple[list[str], list[str]]:
        reads = [name for name in map(self._held, filter(None, step.reads)) if name is not None]
        writes: list[str] = []
        for name in step.writes:
            writes += self._elements.get(name, [name])
        return list(dict.fromkeys(reads)), writes

    def _bytes(self, names: list[str]) -> int | None:
        total = 0
        for name in names:
            buffer = self._wrapper.buffers.get(name)
            if buffer is None or buffer.bytes is None:
                return None
            total += buffer.bytes
        return total

    def _line(self, number: int) -> tuple[Line, ...]:
        return () if self._log is None else ((self._log, self._first + number),)


def called_nodes(module: GeneratedModule, log: int | None = None, first: int = 0) -> list[FinalNode]:
    """The calls of a module in order, as final nodes without members.

    Args:
        log: the number of the log that it stands in.
        first: the line of its first one there.
    """
    return _Calls(module, log, first).nodes()


def generated_kernels(
    module: GeneratedModule, log: int | None = None, first: int = 0
) -> list[GeneratedKernel]:
    """The kernels that a module defines, with how often it calls each."""
    calls = Counter(step.target for step in module.wrapper.steps)
    return [
        GeneratedKernel(
            kernel.name,
            kernel.kind,
            kernel.code,
            calls[kernel.name],
            line=None if log is None else (log, first + kernel.line),
        )
        for kernel in module.kernels.values()
    ]


def with_types(wrapper: Wrapper, types: dict[str, tuple[str, int | None]]) -> tuple[Buffer, ...]:
    """The buffers, those of unknown type with that of the node that they are of.

    Args:
        types: buffer -> type and bytes.
    """
    made = []
    for buffer in wrapper.buffers.values():
        known = types.get(buffer.name)
        if buffer.bytes is None and known is not None:
            buffer = replace(buffer, type=known[0], bytes=known[1])
        made.append(buffer)
    return tuple(made)
