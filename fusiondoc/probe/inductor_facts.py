"""Facts of a graph that Inductor compiles, read from its own objects: operators of
the FX graph after the post-grad passes, nodes of the scheduler, buffers.

Attributes are those of torch/_inductor/scheduler.py, ir.py and dependencies.py, 2.6
to 2.13; a fact of which a version lacks the attribute is left out. Sizes with
symbols count by the hints of these.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Iterable

from . import folder_of

MOST_OPERATORS = 20_000
"""Most operators that are recorded of a graph."""

_FRAME = re.compile(r'File "(.+?)", line (\d+), in (.+)')
_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
    "bool": "b8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
"""Abbreviations of dtypes in FX graphs (``dtype_abbrs`` in torch/fx/graph.py of
2.6, in torch/utils/_dtype_abbrs.py of 2.13); others, such as ``float8_e4m3fn``, are
unchanged."""


def or_none(function: Callable[..., Any], *args: Any) -> Any:
    """Call the function and return its result; None if it fails, as with attributes
    that this version of torch does not have."""
    try:
        return function(*args)
    except Exception:
        return None


# -- operators -----------------------------------------------------------------------------------------------


class Operators:
    """Reads nodes of FX graphs.

    Args: torch: lines of its own files are not the user's.
    """

    def __init__(self, torch: Any) -> None:
        self._library = folder_of(torch)

    def of_graph(self, graph: Any) -> list[dict[str, Any]]:
        """A record for each node of the graph."""
        nodes = list(graph.nodes)
        return [self._of_node(node) for node in nodes[:MOST_OPERATORS]]

    def _of_node(self, node: Any) -> dict[str, Any]:
        source, function = self._users_line(node.meta.get("stack_trace"))
        decomposed = node.meta.get("original_aten")
        return {
            "name": node.name,
            "op": node.op,
            "target": target_text(node.target),
            "inputs": [read.name for read in node.all_input_nodes],
            "type": or_none(type_text, node.meta.get("val")),
            "source": source,
            "function": function,
            "layer": or_none(layer_of, node.meta),
            "from_": None if decomposed is None else str(decomposed),
            "arguments": or_none(arguments_text, node)
            if node.op == "call_function"
            else None,
        }

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # it lives as long as the process
    def _users_line(self, stack: str | None) -> tuple[str | None, str | None]:
        """``file:line`` of the innermost line outside torch, and its function."""
        frames = _FRAME.findall(stack or "")
        outside = []
        for frame in frames:
            if not frame[0].startswith(self._library):
                outside.append(frame)
        if not outside:
            return None, None
        file, line, function = outside[-1]
        return "%s:%s" % (file, line), function


_MOST_ARGUMENTS = 4000
"""Most characters of arguments that are recorded; a longer text, cut, would be no
valid Python."""


def arguments_text(node: Any) -> str | None:
    """``gt, add``; ``mul_1, [2], correction = 0``: nodes of torch.fx print as their
    names."""
    named = ("%s = %r" % pair for pair in node.kwargs.items())
    text = ", ".join((*map(repr, node.args), *named))
    if len(text) <= _MOST_ARGUMENTS:
        return text
    return None


def target_text(target: Any) -> str:
    """``aten.add.Tensor``, ``getitem``; the text itself of a placeholder or an
    attribute."""
    if isinstance(target, str) or hasattr(target, "_schema"):
        return str(target)
    return str(getattr(target, "__name__", target))


def type_text(value: Any) -> str | None:
    """``f32[64, 128][128, 1]cpu``, ``Sym(s77)``, as FX graphs print it
    (torch/fx/graph.py, ``_type_repr``); None for a value that is neither a tensor
    nor a number of dynamic shapes."""
    if type(value).__name__ in _SYMBOLS:
        return "Sym(%s)" % (value,)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return None
    strides = or_none(lambda: "[%s]" % ", ".join(map(str, value.stride()))) or ""
    return "%s%s%s" % (_shaped(dtype, shape), strides, value.device)


_SYMBOLS = ("SymInt", "SymFloat", "SymBool")


def _shaped(dtype: Any, sizes: Iterable[Any]) -> str:
    name = str(dtype).replace("torch.", "")
    return "%s[%s]" % (_DTYPES.get(name, name), ", ".join(map(str, sizes)))


_STEP = re.compile(r"\['?([^'\[\]]+)'?\]|\.(\w+)")
_CONTAINERS = ("_modules", "_parameters", "_buffers")


def layer_of(meta: dict[str, Any]) -> str | None:
    """The path of the module that called the operator: ``layers.0.norm``, "" for
    the outermost.

    A node of a backward graph has ``fwd_nn_module_stack``
    (torch/_functorch/_aot_autograd/utils.py, ``copy_fwd_metadata_to_bw_nodes``).
    Paths begin with the local variable in Dynamo's frame: ``L['self']``.
    """
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    if not stack:
        return None
    innermost = list(stack.values())[-1]
    path = str(innermost[0] if isinstance(innermost, tuple) else innermost)
    return module_path(path)


@functools.lru_cache(maxsize=4096)
def module_path(path: str) -> str:
    """``layers.0.norm`` of ``L['self'].layers[0].norm``, of
    ``L['self']._modules['layers']._modules['0']`` and of
    ``getattr(L['self'].layers, '0').norm``."""
    flat = re.sub(r", '(\w+)'\)", r".\1", path.replace("getattr(", ""))
    steps = ["".join(step) for step in _STEP.findall(flat)]
    if flat.startswith("L["):
        steps = steps[1:]
    return ".".join(step for step in steps if step not in _CONTAINERS)


# -- nodes of the scheduler ----------------------------------------------------------------------------------


def final_node(node: Any, called: Any, explicit: Any, graph: Any) -> dict[str, Any]:
    """The record of a node of the scheduler's final list.

    Args:
        called: names of operators that calls compute; loops only read them.
        explicit: overloads that Inductor leaves to eager code on purpose.
        graph: the ``GraphLowering`` that the node is of.
    """
    ir = getattr(node, "node", None)
    members = [member.get_name() for member in node.get_nodes()]
    reads, writes = (
        _accesses(node, "reads", graph),
        _accesses(node, "writes", graph),
    )
    own = {access["buffer"] for access in writes}
    after = []
    for access in reads:
        if _is_order_alone(node, access["buffer"]):
            after.append(access)
    # A buffer that a node writes, and reads by another index, is no input of it;
    # torch counts it once too.
    reads = [
        access
        for access in reads
        if access not in after and access["buffer"] not in own
    ]
    read_bytes, write_bytes = _moved(node, reads, writes)
    return {
        "name": node.get_name(),
        "members": members,
        "scheduler_class": type(node).__name__,
        "template": bool(or_none(node.is_template)),
        "operators": operators_of(node, called),
        "reads": reads,
        "writes": writes,
        "after": [access["buffer"] for access in after],
        "read_bytes": read_bytes,
        "write_bytes": write_bytes,
        "sizes": or_none(lambda: str(node.group[1]))
        if hasattr(node, "group")
        else None,
        "device": or_none(_device, node),
        "call": _call(ir, explicit) if is_call(node) else None,
    }


def _is_order_alone(node: Any, name: str) -> bool:
    """True if a node only has to run after the node that writes the buffer, as one
    that changes a tensor in place does (``WeakDep`` of
    torch/_inductor/dependencies.py)."""
    kinds = set()
    for access in node.read_writes.reads:
        if str(access.name) == name:
            kinds.add(type(access).__name__)
    return kinds == {"WeakDep"}


def _device(node: Any) -> str | None:
    device = node.get_device()
    if device is None:
        return None
    return str(device)


def is_call(node: Any) -> bool:
    """True if a node is a call, no loop of a kernel: ExternKernelSchedulerNode."""
    return "Extern" in type(node).__name__ and len(node.get_nodes()) == 1


def operators_of(node: Any, called: Any) -> list[str]:
    """Names of the FX nodes that a node of the scheduler computes."""
    if type(node.node).__name__ == "MultiOutput":
        return []  # it takes one result of a call
    if is_call(node) or type(node).__name__ == "NopKernelSchedulerNode":
        origin = getattr(node.node, "origin_node", None)
        if origin is not None:
            return [str(origin.name)]
        own = _of_overload(node.node)
        if own:
            return own
    found: dict[str, None] = {}
    for member in node.get_nodes():
        for origin in getattr(member.node, "origins", None) or ():
            if origin.op == "call_function":
                found[str(origin.name)] = None
    return [name for name in found if is_call(node) or name not in called]


def _of_overload(ir: Any) -> list[str]:
    """Names of the FX nodes of the operator that a call runs. The call's
    ``origins`` also hold the nodes of its inputs."""
    packet = getattr(getattr(ir, "op_overload", None), "overloadpacket", None)
    if packet is None:
        return []
    origins = getattr(ir, "origins", None) or ()
    names = []
    for node in origins:
        if getattr(node.target, "overloadpacket", None) is packet:
            names.append(str(node.name))
    return names


def called_operators(nodes: Iterable[Any]) -> set[str]:
    """Names of the FX nodes that calls compute (``origin_node``). Loops that read
    their results list these names as well (pytorch/pytorch#95022)."""
    found = set()
    for node in nodes:
        if is_call(node):
            found.update(operators_of(node, ()))
    return found


def _call(ir: Any, explicit: Any) -> dict[str, Any]:
    """Return the record of a call: the class of its IR, ``aten.sort.stable``,
    ``extern_kernels.addmm``."""
    overload = getattr(ir, "op_overload", None)
    return {
        "ir_class": type(ir).__name__,
        "overload": None if overload is None else target_text(overload),
        "function": or_none(lambda: str(ir.get_kernel_name()))
        or getattr(ir, "python_kernel_name", None),
        "on_purpose": overload in explicit if overload is not None else None,
    }


def _moved(
    node: Any, reads: list[dict[str, Any]], writes: list[dict[str, Any]]
) -> tuple[int | None, int | None]:
    """Bytes that a node reads and writes, by torch; torch 2.6 states only the sum
    of both."""
    if hasattr(node, "get_write_buffer_sizes"):
        both = or_none(lambda: int(node.get_read_write_buffers_sizes()))
        written = or_none(lambda: int(node.get_write_buffer_sizes()))
        return None if both is None or written is None else both - written, written
    return _sum_of(node, reads), _sum_of(node, writes)


def _sum_of(node: Any, accesses: list[dict[str, Any]]) -> int | None:
    if is_call(node) and any(access["bytes"] is None for access in accesses):
        return None
    return sum(access["bytes"] or 0 for access in accesses)


def _accesses(node: Any, side: str, graph: Any) -> list[dict[str, Any]]:
    """Each accessed buffer once, with its bytes and the different index expressions
    on it."""
    reads = side == "reads"
    moved = or_none(lambda: node.get_read_write_buffer_accesses(reads, not reads))
    if moved is None:
        moved = or_none(_bytes_by_buffer, node, graph)
    indices: dict[str, dict[str, None]] = {}
    for access in getattr(node.read_writes, side):
        of_buffer = indices.setdefault(str(access.name), {})
        text = or_none(_index_text, access)
        if text is not None:
            of_buffer[text] = None
    found = []
    for name, texts in sorted(indices.items()):
        size = moved.get(name) if moved else None
        found.append(
            {
                "buffer": name,
                "bytes": None if size is None else int(size),
                "index": "; ".join(list(texts)[:_MOST_INDICES]) or None,
            }
        )
    return found


_MOST_INDICES = 4


def _bytes_by_buffer(node: Any, graph: Any) -> dict[str, int]:
    """Bytes by buffer for torch 2.6, by the rule of its
    ``get_read_write_buffers_sizes``: the size of the buffer, or less if the loops
    make fewer accesses; buffers used only inside the node are left out."""
    found = {}
    members = node.get_nodes()
    deps = [*node.read_writes.reads, *node.read_writes.writes]
    written = {str(dep.name) for dep in node.read_writes.writes}
    for name in {str(dep.name) for dep in deps}:
        if (
            len(members) > 1
            and name in written
            and not _is_used_outside(node, members, name)
        ):
            continue
        buffer = _buffer(graph, name)
        if buffer["bytes"] is None:
            continue
        found[name] = buffer["bytes"]
        if len(members) == 1 and hasattr(node, "get_ranges"):
            accesses = (
                sum(str(dep.name) == name for dep in deps) * buffer["itemsize"]
            )
            for size in (size for sizes in node.get_ranges() for size in sizes):
                accesses *= size_hint(graph, size) or 0
            found[name] = min(found[name], accesses)
    return found


def _is_used_outside(node: Any, members: Any, name: str) -> bool:
    buffer = node.scheduler.name_to_buf.get(name)
    return buffer is None or any(user.node not in members for user in buffer.users)


def _index_text(access: Any) -> str | None:
    """Return ``128*d0 + d1, (32, 128)``; None for an access to a whole buffer
    (StarDep, WeakDep)."""
    if not hasattr(access, "index") or not hasattr(access, "size"):
        return None
    sizes = ", ".join(map(str, access.size))
    return "%s, (%s%s)" % (
        access.index,
        sizes,
        "," if len(access.size) == 1 else "",
    )


# -- buffers -------------------------------------------------------------------------------------------------


def buffers_of(graph: Any, names: Iterable[str]) -> list[dict[str, Any]]:
    """Type and bytes of buffers of a ``GraphLowering``."""
    found = []
    for name in names:
        known = or_none(_buffer, graph, name) or {}
        found.append(
            {"type": known.get("type"), "bytes": known.get("bytes"), "name": name}
        )
    return found


def _buffer(graph: Any, name: str) -> dict[str, Any]:
    if hasattr(graph, "get_buffer"):
        buffer = graph.get_buffer(name)
    else:
        buffer = graph.name_to_buffer[name]
    sizes, dtype = list(buffer.get_size()), buffer.get_dtype()
    number = int(dtype.itemsize)
    known = True
    for size in sizes:
        hint = size_hint(graph, size)
        known = known and hint is not None
        number *= hint or 0
    itemsize = int(dtype.itemsize)
    return {
        "type": _shaped(dtype, sizes),
        "bytes": number if known else None,
        "itemsize": itemsize,
    }


def size_hint(graph: Any, size: Any) -> int | None:
    """A size as a number: ``optimization_hint`` of 2.13, ``size_hint`` before it
    (sizevars.py)."""
    variables = graph.sizevars
    hint = getattr(variables, "optimization_hint", None) or variables.size_hint
    found: int | None = or_none(int, size)
    if found is None:
        found = or_none(lambda: int(hint(size)))
    return found


def why_not_shared(scheduler: Any, first: Any, second: Any) -> dict[str, str]:
    """Buffer that both access -> why no access of one equals an access of the other
    (``Scheduler.decide_fusion_fail_reason``, which torch calls for a metric table
    alone)."""
    decide = getattr(scheduler, "decide_fusion_fail_reason", None)
    if decide is None:
        return {}
    common = _buffers_used(first) & _buffers_used(second)
    found = {}
    for name in sorted(common):
        text = or_none(decide, first, second, (name,))
        if text is not None:
            found[name] = _only_value(name, str(text))
    return found


def _buffers_used(node: Any) -> set[str]:
    return {str(access.name) for access in node.read_writes.reads_and_writes()}


def _only_value(name: str, text: str) -> str:
    """Return ``broadcast`` for ``{'buf0': 'broadcast'}``."""
    beginning = "{%r: " % name
    if not text.startswith(beginning):
        return text
    return text[len(beginning) : -1].strip("'\"")
