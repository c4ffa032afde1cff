"""A final node of a compiled graph as a row of a report: the keys by which nodes
share a row, and the contents of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusiondoc.diagnosis.of_fusers.inductor_graphs import (
    ComputingNode,
    FinalGraph,
    Role,
    is_pattern,
)
from fusiondoc.fusers.inductor.compilation import FinalKind
from fusiondoc.fusers.inductor.kinds import KIND, CallKind
from fusiondoc.fusers.inductor.targets import operator_name
from fusiondoc.model import dataclass
from fusiondoc.model.boundaries import BoundaryEnd
from fusiondoc.model.reasons import CompiledCall
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import OpNode

_KINDS: Mapping[FinalKind, str] = {
    FinalKind.OUTER_LOOP: "Cpp",
    FinalKind.TEMPLATE: "Template",
    FinalKind.FOREACH: "Foreach",
    FinalKind.MIXED_ORDER: "MixedOrder",
}
"""Class of a node -> the end of its kind, if the class decides it."""

NAMELESS = "call"
"""The operator of a call of which the log shows nothing else."""

_LANGUAGES: Mapping[str, str] = {
    "cpp": "Cpp",
    "triton": "Triton",
    "template": "Template",
    "foreach": "Foreach",
}
"""``GeneratedKernel.kind`` -> the end of the kind."""

_CODE_OF_CALL: Mapping[CallKind, str] = {
    CallKind.LIBRARY: "FD251",
    CallKind.NO_LOWERING: "FD252",
    CallKind.ON_PURPOSE: "FD253",
    CallKind.CUSTOM: "FD254",
    CallKind.USER_TRITON: "FD255",
    CallKind.COLLECTIVE: "FD256",
    CallKind.COPY: "FD257",
    CallKind.EAGER_SUM: "FD258",
    CallKind.RANDOM_SEED: "FD259",
    CallKind.VIEW: "FD259",
    CallKind.UNKNOWN: "FD299",
}


@dataclass(frozen=True)
class FinalNodeKey:
    """The key by which final nodes share a row."""

    kind: str
    phase: str | None
    rank: int | None
    specialisation: int
    nodes: tuple[OpNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    moved: tuple[int | None, int | None]


@dataclass(frozen=True)
class CallKey:
    op: str
    user_source: str | None
    phase: str | None
    rank: int | None
    reason: Reason


Member = tuple["ReportedGraph", ComputingNode]


class ReportedGraph:
    """A compiled graph whose rows are being made."""

    def __init__(self, number: int, found: FinalGraph, specialisation: int) -> None:
        self.number = number
        self.found = found
        self.graph = found.graph
        self.specialisation = specialisation
        self.groups: dict[int, str] = {}
        """Index of a final node -> id of its row."""
        self.rows: dict[int, int] = {}
        """Index of a call -> index of its row in ``unfused``."""
        self.kernels: dict[str, str] = {}
        """Name of a kernel -> its id."""

    def end(self, node: ComputingNode) -> BoundaryEnd:
        """Return the final node as a boundary names it."""
        group, row = self.groups.get(node.index), self.rows.get(node.index)
        return BoundaryEnd(
            group,
            row,
            group_kind(self.found, node) if group else node.op or node.final.name,
        )


def with_specialisations(graphs: Sequence[FinalGraph]) -> list[ReportedGraph]:
    """Number graphs that were compiled again for other types or sizes: the same
    operators at the same lines of the same frame."""
    seen: dict[object, int] = {}
    made = []
    for number, found in enumerate(graphs):
        graph = found.graph
        frame = None
        if graph.compile_id is not None:
            frame = graph.compile_id.partition("/")[0]
        computed = tuple(nodes_of(node) for node in found.nodes)
        key = (frame, graph.phase, graph.rank, computed) if computed else number
        seen[key] = seen.get(key, 0) + 1
        made.append(
            ReportedGraph(number, found, seen[key] if frame is not None else 1)
        )
    return made


def group_kind(found: FinalGraph, node: ComputingNode) -> str:
    """Return ``Group.kind`` of a final node."""
    if is_pattern(node.final):
        return f"{KIND}Library"
    known = _KINDS.get(node.final.kind)
    if known is not None:
        return KIND + known
    language = _language(found, node)
    if language in _LANGUAGES:
        return f"{KIND}{_LANGUAGES[language]}"
    return KIND


def _language(found: FinalGraph, node: ComputingNode) -> str:
    """Return the language of its kernel; if not known, that of all kernels of the
    graph, which are mostly for one device."""
    kernel = found.kernels.get(node.final.kernel or "")
    if kernel is not None:
        known = kernel.kind
    else:
        known = (node.final.kernel or "").partition("_")[0]
    if known in _LANGUAGES:
        return known
    if node.final.device is not None:
        if node.final.device.startswith("cpu"):
            return "cpp"
        return "triton"
    languages = {one.kind for one in found.graph.kernels} & {"cpp", "triton"}
    if len(languages) == 1:
        return languages.pop()
    return ""


def group_key(graph: ReportedGraph, node: ComputingNode) -> FinalNodeKey:
    final = node.final
    return FinalNodeKey(
        group_kind(graph.found, node),
        graph.graph.phase,
        graph.graph.rank,
        graph.specialisation,
        nodes_of(node),
        types_of(graph.found, [access.buffer for access in final.reads]),
        types_of(graph.found, sorted(graph.found.read_later[node.index])),
        (final.read_bytes, final.write_bytes),
    )


def nodes_of(node: ComputingNode) -> tuple[OpNode, ...]:
    nodes = []
    for one in node.operators:
        nodes.append(OpNode(operator_name(one.target), None, one.source))
    return tuple(nodes)


def call_key(graph: ReportedGraph, node: ComputingNode) -> CallKey:
    op = node.op or node.final.kernel or NAMELESS
    return CallKey(
        op,
        source_of(node),
        graph.graph.phase,
        graph.graph.rank,
        reason_of(graph.found, node),
    )


def reason_of(found: FinalGraph, node: ComputingNode) -> Reason:
    """Return why it is a call."""
    call = node.final.call or CallKind.UNKNOWN
    detail = CompiledCall(call=call, calls=node.final.kernel)
    return Reason.of(_CODE_OF_CALL[call], detail, found.call_is_stated(node))


def source_of(node: ComputingNode) -> str | None:
    for operator in node.operators:
        if operator.source is not None:
            return operator.source
    return next(iter(node.final.stack_sources), None)


def layer_of(node: ComputingNode) -> str | None:
    """Return the layer that all its operators share; for operators of several
    layers the one that contains these."""
    layers = []
    for operator in node.operators:
        if operator.layer:
            layers.append(operator.layer)
    if not layers:
        return None
    common = layers[0].split(".")
    for layer in layers[1:]:
        parts = layer.split(".")
        common = common[
            : next(
                (i for i, (a, b) in enumerate(zip(common, parts)) if a != b),
                len(parts),
            )
        ]
    return ".".join(common) or None


def name_of(member: Member) -> str:
    """Return the kernel's name; for a loop nest in a function with others also its
    number."""
    graph, node = member
    kernel = node.final.kernel
    if kernel is None:
        return node.final.name
    inside = []
    for one in graph.found.nodes:
        if one.role is Role.GROUP and one.final.kernel == kernel:
            inside.append(one)
    known = graph.found.kernels.get(kernel)
    if known is not None:
        of_a_call = len(inside) // max(1, known.calls)
    else:
        of_a_call = len(inside)
    if of_a_call < 2 or group_kind(graph.found, node) != f"{KIND}Cpp":
        return kernel
    return f"{kernel}, loops {inside.index(node) % of_a_call + 1} of {of_a_call}"


def types_of(found: FinalGraph, buffers: Sequence[str]) -> tuple[str, ...]:
    types = []
    for name in dict.fromkeys(buffers):
        if name in found.buffers:
            types.append(found.buffers[name].type)
    return tuple(type_ for type_ in types if type_ is not None)


def moved_by(node: ComputingNode) -> int | None:
    return total([node.final.read_bytes, node.final.write_bytes])


def total(values: Sequence[int | None]) -> int | None:
    """Return the sum; None if one value is not known."""
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        return sum(known)
    return None


def edges_of(found: FinalGraph) -> list[tuple[int, int]]:
    """Return the pairs of nodes of which the second reads a result of the first."""
    edges: dict[tuple[int, int], None] = {}
    for node, writers in zip(found.nodes, found.writers_before):
        edges.update(((writer, node.index), None) for writer in writers.values())
    return list(edges)
