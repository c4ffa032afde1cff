"""The lines of ``call()`` in a generated module: allocations, aliases, calls of
kernels and of libraries (``torch/_inductor/codegen/wrapper.py``; the same forms in
2.6, 2.11 and 2.13)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from fusiondoc.fusers.inductor.compilation import Buffer
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.python_text import arguments, sizes_of
from fusiondoc.parsers.inductor.tensor_types import bytes_of, short_name, type_of

_ALLOCATION = re.compile(
    r"(\w+) = (?:empty_strided\w*|rand_strided|alloc_from_pool)\("
)
_ALIAS = re.compile(
    r"(\w+) = (?:reinterpret_tensor\((\w+), |(\w+)(?:;|\s*(?:#|$)))"
)
_ELEMENT = re.compile(r"(\w+) = (\w+)\[(\d{1,4})\]\s*(?:#.*)?$")
_CALL = re.compile(r"(?:(\w+) = )?([A-Za-z_][\w.]*)\(")
_SYMBOL = re.compile(r"(s\d+|u\d+|ks\d+) = (\w+)$")
_NUMBER = re.compile(r"(\w+) = (\d{1,19})$")
_EAGER_SUM = re.compile(r"(\w+) = (workspace_\d+)\[.*\.sum\(dim=0\)")
_HANDLE = re.compile(r"# \[Provenance debug handles\] (.+)$")
_SOURCE_NODES = re.compile(
    r"# Topologically Sorted Source Nodes: \[(.*?)\], Original ATen: \[.*?\]"
)
_NAME = re.compile(r"(?<![\w.'\"])([A-Za-z_]\w*)(?!\s*=[^=]|[\w.(])")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_OUT = re.compile(r"\bout=(\w+)")

_NOTHING = (
    "del",
    "return",
    "args.clear",
    "assert_alignment",
    "with",
    "torch.cuda.set_device",
    "torch.xpu.set_device",
    "get_raw_stream",
    "print",
    "tuple",
    "list",
    "range",
    "isinstance",
    "run_intermediate_hooks",
    "partition",
)


@dataclass
class WrapperCall:
    """A call that runs something."""

    target: str
    """Name of a kernel, ``extern_kernels.mm``, ``aten.sort.stable``."""
    reads: tuple[str, ...]
    """Names of buffers among its arguments, in order, including those that a kernel
    writes."""
    writes: tuple[str, ...]
    """Set for a library call. For a kernel, its definition has the arguments that
    it writes."""
    line: int
    handle: str | None = None
    """Provenance handle: ``mm:3``."""
    sources: tuple[str, ...] = ()
    """Names of the "Source Nodes" in the comment before it."""
    mixed_order: bool = False
    arguments: tuple[str, ...] = ()
    """The text of each argument."""


@dataclass
class Wrapper:
    """The buffers and calls of a module's wrapper."""

    inputs: tuple[str, ...] = ()
    buffers: dict[str, Buffer] = field(default_factory=dict)
    reuses: dict[str, str] = field(default_factory=dict)
    """Buffer -> the buffer whose memory it reuses."""
    elements: dict[str, str] = field(default_factory=dict)
    """Buffer -> the tuple of results of a call of which it is a part."""
    steps: list[WrapperCall] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    unknown: list[str] = field(default_factory=list)


class WrapperReader:
    """Reads the lines of ``call()`` in order."""

    def __init__(
        self,
        kernels: frozenset[str],
        hints: dict[str, int],
        given: dict[str, Buffer],
    ) -> None:
        self.wrapper = Wrapper(buffers=dict(given))
        self._kernels = kernels
        self._hints = hints
        self._handle: str | None = None
        self._source_nodes: tuple[str, ...] = ()
        self._mixed_order = False

    def take(self, text: str, line: int) -> None:
        """Read a line, without its line end. ``line``: its number in the module,
        from 0."""
        text = text.strip()
        if text.startswith("#"):
            self._take_comment(text)
        elif text.endswith("= args"):
            names = [name.strip() for name in text[: -len("= args")].split(",")]
            self.wrapper.inputs = tuple(
                dict.fromkeys((*self.wrapper.inputs, *filter(None, names)))
            )
        elif text.startswith("return "):
            self.wrapper.outputs = self._names(text[len("return ") :])
        elif text and not self._declares(text):
            self._call(text, line)

    def _take_comment(self, text: str) -> None:
        handle = _HANDLE.match(text)
        if handle is not None:
            self._handle = handle.group(1).strip()
            return
        nodes = _SOURCE_NODES.match(text)
        if nodes is not None:
            self._source_nodes = _listed(nodes.group(1))
        elif text.startswith("# Call mix order reduction kernel"):
            self._mixed_order = True

    def _declares(self, text: str) -> bool:
        """Read a line that names memory or a size; return False for another
        line."""
        return (
            self._allocates(text) or self._aliases(text) or self._names_a_size(text)
        )

    def _allocates(self, text: str) -> bool:
        found = _ALLOCATION.match(text)
        if found is None:
            return False
        parts, _ = arguments(text, found.end() - 1)
        name = found.group(1)
        if "alloc_from_pool" in found.group():
            parts = [parts[3], parts[4], parts[2]] if len(parts) > 4 else []
        self.wrapper.buffers[name] = buffer_of(name, parts, self._hints)
        return True

    def _aliases(self, text: str) -> bool:
        found = _ELEMENT.match(text)
        if found is not None and found.group(2) in self.wrapper.buffers:
            name, whole = found.group(1), found.group(2)
            self.wrapper.buffers.setdefault(name, Buffer(name, None, None))
            self.wrapper.elements[name] = whole
            return True
        found = _ALIAS.match(text)
        if found is None:
            return False
        name, viewed, same = found.groups()
        whole = viewed or same
        before = self.wrapper.buffers.get(whole)
        if before is None:
            return viewed is not None
        buffer = Buffer(name, before.type, before.bytes)
        if viewed is not None:
            buffer = self._view(name, before, text)
        if "del " in text or viewed is None:
            self.wrapper.reuses[name] = whole
        else:
            buffer = replace(buffer, part_of=before.part_of or whole)
        self.wrapper.buffers[name] = buffer
        return True

    def _view(self, name: str, before: Buffer, text: str) -> Buffer:
        """Return a view as a buffer: with its own sizes and the element type of the
        whole."""
        parts, _ = arguments(text, text.index("("))
        if len(parts) < 3 or before.type is None:
            return Buffer(name, None, None)
        short = before.type.partition("[")[0]
        sizes, strides = sizes_of(parts[1]), sizes_of(parts[2])
        size = bytes_of(short, sizes, strides, self._hints)
        return Buffer(name, f"{short}[{', '.join(sizes)}]", size)

    def _names_a_size(self, text: str) -> bool:
        found = _SYMBOL.match(text)
        if found is not None:
            hint = self._hints.get(found.group(2))
            if hint is not None:
                self._hints[found.group(1)] = hint
            return True
        return _NUMBER.match(text) is not None

    def _call(self, text: str, line: int) -> None:
        summed = _EAGER_SUM.match(text)
        if summed is not None:
            result, workspace = summed.groups()
            self.wrapper.buffers.setdefault(result, Buffer(result, None, None))
            self._step(
                WrapperCall("sum", (workspace,), (result,), line), keep_comment=True
            )
            return
        found = _CALL.match(text)
        if found is None or found.group(2).startswith(_NOTHING):
            return
        result, target = found.groups()
        if target == "assert_size_stride":
            self._asserted(text)
            return
        parts, _ = arguments(text, found.end() - 1)
        target = target.removesuffix(".run")
        if target in self._kernels or target.startswith(("triton_", "cpp_fused_")):
            self._step(
                WrapperCall(
                    target, self._of_each(parts), (), line, arguments=tuple(parts)
                )
            )
        else:
            self._library_call(result, target, parts, line)

    def _library_call(
        self, result: str | None, target: str, parts: list[str], line: int
    ) -> None:
        is_method = target.partition(".")[0] in self.wrapper.buffers
        known = target.startswith(
            (
                "extern_kernels.",
                "torch.ops.",
                "aten.",
                "inductor_ops.",
                "_quantized.",
            )
        )
        if not (known or is_method or "." not in target):
            return
        joined = ", ".join(parts)
        out = _OUT.findall(joined)
        writes = ([result] if result is not None else []) + out
        for name in writes:
            self.wrapper.buffers.setdefault(name, Buffer(name, None, None))
        own = target.partition(".")[0] if is_method else None
        if own is not None:
            target = "Tensor." + target.partition(".")[2]
            writes.append(own)
        reads = tuple(name for name in self._names(joined) if name not in out)
        self._step(
            WrapperCall(
                target_of_call(target),
                reads,
                tuple(writes),
                line,
                arguments=tuple(parts),
            )
        )

    def _step(self, step: WrapperCall, keep_comment: bool = False) -> None:
        step.sources = self._source_nodes
        step.handle = None if keep_comment else self._handle
        step.mixed_order = self._mixed_order and not keep_comment
        self.wrapper.steps.append(step)
        self._handle, self._mixed_order = None, False

    def _asserted(self, text: str) -> None:
        """Set the size of a call's result: ``assert_size_stride(buf2, (2, 8), (8,
        1))``."""
        before = self.wrapper.buffers.get(
            text[text.index("(") + 1 :].partition(",")[0].strip()
        )
        if before is None or before.bytes is not None:
            return
        parts, _ = arguments(text, text.index("("))
        if len(parts) < 3:
            return
        short = (before.type or "").partition("[")[0]
        sizes, strides = sizes_of(parts[1]), sizes_of(parts[2])
        size = bytes_of(short, sizes, strides, self._hints) if short else None
        self.wrapper.buffers[parts[0]] = Buffer(
            parts[0], f"{short or '?'}[{', '.join(sizes)}]", size
        )

    def _names(self, text: str) -> tuple[str, ...]:
        """Return the distinct names of buffers in a text."""
        names = dict.fromkeys(_NAME.findall(_QUOTED.sub("", text)))
        return tuple(name for name in names if name in self.wrapper.buffers)

    def _of_each(self, parts: list[str]) -> tuple[str, ...]:
        """Return the buffer of each argument of a kernel; "" for an argument that
        is no buffer."""
        return tuple(next(iter(self._names(part)), "") for part in parts)


def _listed(text: str) -> tuple[str, ...]:
    parts = []
    for part in text.split(","):
        if part.strip():
            parts.append(part.strip())
    return tuple(parts)


def target_of_call(target: str) -> str:
    """Return ``aten.sort.stable`` for ``torch.ops.aten.sort.stable``."""
    return target.removeprefix("torch.ops.")


def buffer_of(name: str, parts: list[str], hints: dict[str, int]) -> Buffer:
    """Return the buffer for the arguments of its allocation: sizes, strides, and
    its element type among the others."""
    dtype = next((part for part in reversed(parts) if "torch." in part), None)
    if len(parts) < 3 or dtype is None:
        return Buffer(name, None, None)
    dtype = dtype.rpartition("=")[2].strip()
    sizes, strides = sizes_of(parts[0]), sizes_of(parts[1])
    return Buffer(
        name,
        type_of(dtype, parts[0]),
        bytes_of(short_name(dtype), sizes, strides, hints),
    )


def given_value(text: str, hints: dict[str, int]) -> Buffer | None:
    """Return the input that a line of ``get_args`` makes: ``arg0_1 =
    rand_strided((64,), (1,), ...)``; None for other lines. A number is added to
    ``hints``."""
    text = text.strip()
    number = _NUMBER.match(text)
    if number is not None:
        value = whole_number(number.group(2))
        if value is not None:
            hints[number.group(1)] = value
        return None
    found = _ALLOCATION.match(text)
    if found is None:
        return None
    parts, _ = arguments(text, found.end() - 1)
    return buffer_of(found.group(1), parts, hints)
