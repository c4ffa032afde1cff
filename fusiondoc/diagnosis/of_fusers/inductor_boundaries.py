"""Boundaries: tensors that go through memory between final nodes of Inductor, and
why these nodes stayed apart.

A boundary is a pair of final nodes of which the second reads a tensor that the
first writes, or which read the same tensor. It has the scheduler's refusal of these
two nodes as they are at the end; else a refusal of parts of them, in an earlier
round. Calls are removed before pairs are tried, and the C++ back end refuses
without a text: there the cause is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from fusiondoc.diagnosis.of_fusers.inductor_graphs import (
    CAT,
    ComputingNode,
    FinalGraph,
    Role,
)
from fusiondoc.fusers.inductor.causes import (
    CODE_OF_CAUSE,
    cause_of,
    difference_between,
    difference_of,
    is_computed,
    reduces_before_the_last,
    share_no_element,
)
from fusiondoc.fusers.inductor.compilation import (
    Access,
    CompilationPart,
    FinalKind,
    GraphOperator,
    Refusal,
)
from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause, CallKind
from fusiondoc.fusers.inductor.node_kinds import READ_WINDOWS
from fusiondoc.fusers.inductor.targets import operator_name
from fusiondoc.graph.shared_tensors import MOST_BOUNDARIES, Boundaries
from fusiondoc.model.boundaries import (
    READ_TWICE,
    WRITTEN_AND_READ,
    Boundary,
    BoundaryEnd,
)
from fusiondoc.model.reasons import SharedAccess, StayedApart
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.operators import LIBRARY, NAMES_OF_REDUCTIONS, OF_MANY_ELEMENTS

MOST_READERS = 64
"""Later readers of a tensor that are paired with a reader: as many as torch tries
(``max_fusion_buffer_group_pairwise_attempts``, torch/_inductor/config.py, 2.6 to
2.13)."""

_Key = tuple[
    BoundaryEnd,
    BoundaryEnd,
    "str | None",
    str,
    "str | None",
    "tuple[BoundaryEnd, ...]",
]


class _Pair(NamedTuple):
    """Two final nodes that share memory."""

    first: ComputingNode
    second: ComputingNode
    written: tuple[str, ...]
    """Buffers that the first writes and the second reads."""
    read: tuple[str, ...]
    """Buffers that both read."""


class GraphBoundaries:
    """The boundaries of a graph."""

    def __init__(
        self, found: FinalGraph, end: Callable[[ComputingNode], BoundaryEnd]
    ) -> None:
        self._found = found
        self._end = end
        self._nodes = []
        for node in found.nodes:
            if node.role is not Role.PASSES_ON:
                self._nodes.append(node)
        self._after = _reached(found, self._nodes)
        self._refusals = []
        for refusal in found.graph.refusals:
            self._refusals.append(_with_node_names(refusal, found))
        self._order = {node.final.name: node.index for node in self._nodes}
        self._refused: dict[frozenset[str], Refusal] = {}
        for refusal in self._refusals:
            pair = frozenset((refusal.first, refusal.second))
            known = self._refused.get(pair)
            if known is None or self._weight(refusal) >= self._weight(known):
                self._refused[pair] = refusal

    def __iter__(self) -> Iterator[Boundary]:
        for pair in self._pairs():
            yield self._boundary(pair)

    def nodes_at(self, boundary: Boundary) -> list[ComputingNode]:
        """Return the two nodes of the boundary in this graph, with the nodes
        between them that keep them apart; empty if the boundary is not in this
        graph."""
        for pair in self._pairs():
            made = self._boundary(pair)
            if made == boundary.times(made.count):
                return [
                    pair.first,
                    *(self._on_the_way(pair) if made.between else ()),
                    pair.second,
                ]
        return []

    def _weight(self, refusal: Refusal) -> int:
        """Return the weight of a refusal: of several refusals of two nodes the one
        with the highest weight counts. torch also tries the later node before the
        earlier one, which must fail if it needs the other's results."""
        first, second = (
            self._order.get(refusal.first),
            self._order.get(refusal.second),
        )
        in_order = first is not None and second is not None and first < second
        return 2 * (refusal.text is not None) + in_order

    def _pairs(self) -> Iterator[_Pair]:
        written: dict[tuple[int, int], dict[str, None]] = {}
        read: dict[tuple[int, int], dict[str, None]] = {}
        readers: dict[str, list[int]] = {}
        for node in self._nodes:
            own = {access.buffer for access in node.final.writes}
            writers = self._found.writers_before[node.index]
            for root in self._roots_read(node):
                if root in writers:
                    written.setdefault((writers[root], node.index), {})[root] = None
                if root in own:
                    continue
                for earlier in readers.get(root, [])[-MOST_READERS:]:
                    read.setdefault((earlier, node.index), {})[root] = None
                readers.setdefault(root, []).append(node.index)
        for first, second in sorted({**written, **read}):
            yield _Pair(
                self._found.nodes[first],
                self._found.nodes[second],
                tuple(written.get((first, second), ())),
                tuple(read.get((first, second), ())),
            )

    def _roots_read(self, node: ComputingNode) -> list[str]:
        roots: dict[str, None] = {}
        for access in node.final.reads:
            roots.update(dict.fromkeys(self._found.roots(access.buffer)))
        return list(roots)

    def _boundary(self, pair: _Pair) -> Boundary:
        sizes = {}
        for name in (*pair.written, *pair.read):
            sizes[name] = self._bytes(pair, name)
        sizes.update(dict.fromkeys(_read_apart(pair), 0))
        known = [size for size in sizes.values() if size is not None]
        largest = max(sizes, key=lambda name: sizes[name] or 0)
        buffer = self._found.buffers.get(largest)
        between = self._between(pair)
        reason = self._reason(pair, between)
        is_between = (
            isinstance(reason, Reason)
            and reason.code == CODE_OF_CAUSE[ApartCause.BETWEEN]
        )
        return Boundary(
            producer=self._end(pair.first),
            consumer=self._end(pair.second),
            tensor=buffer.type if buffer is not None else None,
            bytes=sum(known) if len(known) == len(sizes) else None,
            kind=WRITTEN_AND_READ if pair.written else READ_TWICE,
            cause=reason,
            between=(self._end(between),)
            if between is not None and is_between
            else (),
        )

    def _bytes(self, pair: _Pair, buffer: str) -> int | None:
        """Return the bytes of a shared buffer that both nodes move at least."""
        accesses: list[Access] = [*pair.second.final.reads, *pair.first.final.reads]
        if buffer in pair.written:
            accesses += pair.first.final.writes
        return self._found.size_of(buffer, accesses)

    # -- why ------------------------------------------------------------------------------------------------

    def _reason(self, pair: _Pair, between: ComputingNode | None) -> Reason | None:
        """Return the reason; None if the log does not show the scheduler's
        decision, and no call explains it."""
        detail = (
            self._of_call(pair)
            or self._of_pair(pair, between)
            or self._of_members(pair, between)
        )
        if detail is None and CompilationPart.DECISIONS in self._found.graph.holds:
            detail = self._never_tried(pair)
        if detail is None:
            return None
        code = CODE_OF_CAUSE[detail.cause]
        of_call = detail.cause is ApartCause.CALL
        stated = self._call_is_stated(pair) if of_call else detail.source == "pair"
        return Reason.of(code, detail, stated)

    def _of_call(self, pair: _Pair) -> StayedApart | None:
        """Return the detail if one node or both are calls: for two calls by the one
        that can be avoided."""
        calls = []
        for node in (pair.first, pair.second):
            if node.final.kind is FinalKind.CALL:
                calls.append(node)
        if not calls:
            return None
        calls.sort(key=lambda node: node.final.call in _WITHOUT_REMEDY)
        kind = calls[0].final.call or CallKind.UNKNOWN
        if kind is CallKind.USER_TRITON:
            cause = ApartCause.USER_KERNEL
        else:
            cause = ApartCause.CALL
        refusal = self._refused.get(
            frozenset((pair.first.final.name, pair.second.final.name))
        )
        text = refusal.text if refusal is not None else None
        return StayedApart(
            cause=cause,
            source="worked out" if text is None else "pair",
            text=text,
            op=self._op(calls[0]),
            call=kind,
        )

    def _call_is_stated(self, pair: _Pair) -> bool:
        calls = []
        for node in (pair.first, pair.second):
            if node.final.kind is FinalKind.CALL:
                calls.append(node)
        return any(map(self._found.call_is_stated, calls))

    def _of_pair(
        self, pair: _Pair, between: ComputingNode | None
    ) -> StayedApart | None:
        """Return the detail by the refusal of these two nodes."""
        refusal = self._refused.get(
            frozenset((pair.first.final.name, pair.second.final.name))
        )
        if refusal is None:
            return None
        if refusal.text is None:
            cause = _by_sizes(pair)
            accesses = _without_text(pair) if cause in _OF_SIZES else ()
            return StayedApart(cause=cause, source="no text", accesses=accesses)
        return self._detail(pair, refusal, between, "pair")

    def _of_members(
        self, pair: _Pair, between: ComputingNode | None
    ) -> StayedApart | None:
        """Return the detail by a refusal of parts of the two, in an earlier
        round."""
        first, second = (
            set(pair.first.final.members),
            set(pair.second.final.members),
        )
        found = None
        for refusal in self._refusals:
            if refusal.text is None:
                continue
            one, other = self._members(refusal.first), self._members(refusal.second)
            if (one <= first and other <= second) or (
                one <= second and other <= first
            ):
                found = refusal
        if found is None:
            return None
        return self._detail(pair, found, between, "members")

    def _members(self, name: str) -> AbstractSet[str]:
        return frozenset(name.split("_"))

    def _detail(
        self,
        pair: _Pair,
        refusal: Refusal,
        between: ComputingNode | None,
        source: str,
    ) -> StayedApart:
        text = refusal.text or ""
        cause = ApartCause.SLOWER if refusal.by_benchmark else cause_of(text)
        if (
            cause in _OF_SIZES
            and pair.written
            and share_reduction(pair.first, pair.second)
        ):
            cause = ApartCause.SPLIT_REDUCTION
        if cause is ApartCause.ACCESS and self._reads_for_a_first_stage(
            pair, refusal
        ):
            cause = ApartCause.SPLIT_REDUCTION
        made = StayedApart(
            cause=cause,
            source="pair" if source == "pair" else "members",
            text=text,
        )
        if cause is ApartCause.BETWEEN and between is not None:
            call = None
            if between.final.kind is FinalKind.CALL:
                call = between.final.call
            return replace(
                made,
                op=self._op(between),
                call=call,
            )
        if cause is ApartCause.ACCESS:
            return replace(made, accesses=_accesses(pair, refusal))
        return made

    def _reads_for_a_first_stage(self, pair: _Pair, refusal: Refusal) -> bool:
        """True if the second node is the first stage of a reduction and only its
        loops keep it apart: a stage loops over other sizes than the tensor's."""
        accesses = _accesses(pair, refusal)
        if not accesses or any(
            access.difference is not AccessDifference.LOOPS for access in accesses
        ):
            return False
        stage = pair.second
        return any(
            share_reduction(stage, node)
            for node in self._nodes
            if node.index in self._after[stage.index]
        )

    def _never_tried(self, pair: _Pair) -> StayedApart:
        """Return the detail of a pair that torch did not try. It never pairs the
        parts of a concatenation with its reader, which reads another buffer than
        the parts are written to."""
        for access in pair.second.final.reads:
            roots = self._found.roots(access.buffer)
            if self._found.is_joined(access.buffer) and not set(roots).isdisjoint(
                pair.written
            ):
                return StayedApart(
                    cause=ApartCause.BETWEEN, source="never tried", op=CAT
                )
        if CompilationPart.LAYERS in self._found.graph.holds:  # hooks saw every try
            return StayedApart(cause=ApartCause.UNSTATED, source="never tried")
        return StayedApart(cause=_by_sizes(pair), source="no line")

    def _op(self, node: ComputingNode) -> str:
        """Return the operator of a call; of a group its first operator."""
        return node.op or node.final.kernel or node.final.name

    def _between(self, pair: _Pair) -> ComputingNode | None:
        """Return a node on another path from the first node to the second: a call
        before others."""
        on_the_way = self._on_the_way(pair)
        on_the_way.sort(key=lambda node: node.final.kind is not FinalKind.CALL)
        if on_the_way:
            return on_the_way[0]
        return None

    def _on_the_way(self, pair: _Pair) -> list[ComputingNode]:
        nodes = []
        for node in self._nodes:
            if (
                pair.first.index < node.index < pair.second.index
                and node.index in self._after[pair.first.index]
                and pair.second.index in self._after[node.index]
            ):
                nodes.append(node)
        return nodes


def _with_node_names(refusal: Refusal, found: FinalGraph) -> Refusal:
    """Name the nodes of a refusal: a benchmark's line names the buffers that the
    nodes write, which have the numbers of the nodes."""
    by_operation = any(
        member.startswith("op")
        for node in found.nodes
        for member in node.final.members
    )
    if not (refusal.by_benchmark and by_operation):
        return refusal
    first, second = (
        refusal.first.replace("buf", "op"),
        refusal.second.replace("buf", "op"),
    )
    return replace(refusal, first=first, second=second)


_WITHOUT_REMEDY = (
    CallKind.LIBRARY,
    CallKind.COLLECTIVE,
    CallKind.RANDOM_SEED,
    CallKind.EAGER_SUM,
    CallKind.UNKNOWN,
    None,
)

_OF_SIZES = (ApartCause.SIZES, ApartCause.REDUCTIONS, ApartCause.ACCESS)


def _reached(
    found: FinalGraph, nodes: Sequence[ComputingNode]
) -> Mapping[int, AbstractSet[int]]:
    """Map the index of a node to the nodes that need its results, directly or
    through others."""
    after: dict[int, set[int]] = {node.index: set() for node in nodes}
    for node in reversed(nodes):
        for index in found.writers_before[node.index].values():
            after[index].add(node.index)
        for root in (
            root for buffer in node.final.after for root in found.roots(buffer)
        ):
            writer = found.writer(root)
            if (
                writer is not None
                and writer.index < node.index
                and writer.index in after
            ):
                after[writer.index].add(node.index)
    for node in reversed(nodes):
        for later in list(after[node.index]):
            after[node.index] |= after[later]
    return after


def _by_sizes(pair: _Pair) -> ApartCause:
    """Return the cause of a refusal without a text: the sizes of the loops, if they
    differ."""
    first, second = pair.first.final.sizes, pair.second.final.sizes
    if first is None or second is None or first == second:
        return ApartCause.UNSTATED
    if _reduces(pair.first) and _reduces(pair.second):
        return ApartCause.REDUCTIONS
    return ApartCause.SIZES


def _reduces(node: ComputingNode) -> bool:
    return any(map(_is_reduction, node.operators))


def _is_reduction(operator: GraphOperator) -> bool:
    return operator_name(operator.target) in _REDUCTIONS


_REDUCTIONS = (
    OF_MANY_ELEMENTS
    | {f"aten::{name}" for name in NAMES_OF_REDUCTIONS}
    | {"aten::var_mean"}
)
"""Operators that reduce. ``aten::max`` of two tensors is ``aten::maximum`` in a
graph for Inductor."""


def are_stages(writer: ComputingNode, reader: ComputingNode) -> bool:
    """True if both compute one reduction, and the second, which reads the first,
    does nothing else: it adds up the partial results."""
    first = {operator.name for operator in writer.operators}
    return share_reduction(writer, reader) and all(
        one.name in first for one in reader.operators
    )


def share_reduction(writer: ComputingNode, reader: ComputingNode) -> bool:
    """True if both compute one reduction: the second adds up the partial results of
    the first, and may compute more."""
    kernel = writer.final.kernel
    if kernel is not None and kernel == reader.final.kernel:
        return False  # a C++ function may hold loops of other operators
    first = {operator.name for operator in writer.operators}
    return any(one.name in first and _is_reduction(one) for one in reader.operators)


def _accesses(pair: _Pair, refusal: Refusal) -> tuple[SharedAccess, ...]:
    """Return how the two nodes access their shared buffers: by torch's comparison,
    else by index expressions that differ."""
    found = []
    for buffer, text in refusal.why_not_shared:
        found.append(SharedAccess(buffer, difference_of(text), text))
    if not found:
        for buffer, indices in _indices(pair):
            one = difference_between(*indices)
            if one is not AccessDifference.UNKNOWN:
                found.append(SharedAccess(buffer, one))
    return _by_operators(pair, _without_common_elements(pair, found))


def _without_common_elements(
    pair: _Pair, found: Sequence[SharedAccess]
) -> list[SharedAccess]:
    """Return the accesses, with those to disjoint parts of a buffer marked as
    such."""
    apart = set(_read_apart(pair))
    accesses = []
    for access in found:
        if access.buffer in apart:
            accesses.append(replace(access, difference=AccessDifference.DISJOINT))
        else:
            accesses.append(access)
    return accesses


def _read_apart(pair: _Pair) -> Iterator[str]:
    """Yield the buffers of which both nodes read disjoint elements."""
    for buffer, indices in _indices(pair):
        if buffer in pair.read and share_no_element(*indices):
            yield buffer


def _without_text(pair: _Pair) -> tuple[SharedAccess, ...]:
    """Return the accesses of a pair that torch refused without a text because their
    loops have other sizes: if the index expressions are equal, only the loops
    differ."""
    found = []
    for buffer, (first, second) in _indices(pair):
        if first == second:
            difference = AccessDifference.LOOPS
        else:
            difference = difference_between(first, second)
        if difference is not AccessDifference.UNKNOWN:
            found.append(SharedAccess(buffer, difference))
    return _by_operators(pair, _without_common_elements(pair, found))


def _indices(pair: _Pair) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each buffer that they share, with the index expressions of both."""
    for buffer in (*pair.written, *pair.read):
        first = _index([*pair.first.final.writes, *pair.first.final.reads], buffer)
        second = _index(pair.second.final.reads, buffer)
        if first is not None and second is not None:
            yield buffer, (first, second)


def _by_operators(
    pair: _Pair, accesses: Sequence[SharedAccess]
) -> tuple[SharedAccess, ...]:
    """Return the accesses, with differences that come from indexing, a reduction or
    a pooling, whatever the layout."""
    compared = []
    for access in accesses:
        compared.append(
            replace(
                access,
                difference=_by_operator(pair, access.buffer, access.difference),
            )
        )
    return tuple(compared)


def _by_operator(
    pair: _Pair, buffer: str, difference: AccessDifference
) -> AccessDifference:
    if difference is not AccessDifference.DISJOINT and any(
        map(is_computed, _indices_of(pair, buffer))
    ):
        return AccessDifference.COMPUTED
    reducing = [node for node in (pair.first, pair.second) if _reduces(node)]
    if difference is AccessDifference.ORDER:
        before = any(_reduces_before_the_last(node, buffer) for node in reducing)
        if before:
            return AccessDifference.REDUCTION
        return difference
    if difference is AccessDifference.COUNT and any(
        _is_unrolled(node, buffer) for node in reducing
    ):
        return AccessDifference.REDUCTION
    if difference in (AccessDifference.COUNT, AccessDifference.UNKNOWN):
        if buffer in pair.written:
            readers = [pair.second]
        else:
            readers = [pair.first, pair.second]
        if any(map(_reads_windows, readers)):
            return AccessDifference.WINDOWS
    return difference


def _indices_of(pair: _Pair, buffer: str) -> Sequence[str]:
    """Return the index expressions of both nodes on a buffer that both use."""
    return next((indices for name, indices in _indices(pair) if name == buffer), ())


def _reads_windows(node: ComputingNode) -> bool:
    return any(operator_name(one.target) in _READ_WINDOWS for one in node.operators)


_READ_WINDOWS = READ_WINDOWS | LIBRARY


def _reduces_before_the_last(node: ComputingNode, buffer: str) -> bool:
    index, sizes = (
        _index([*node.final.writes, *node.final.reads], buffer),
        node.final.sizes,
    )
    return (
        index is not None
        and sizes is not None
        and reduces_before_the_last(index, sizes)
    )


def _is_unrolled(node: ComputingNode, buffer: str) -> bool:
    """True if a small reduction reads all elements of a result at once."""
    index = _index(node.final.reads, buffer)
    return index is not None and len(index.split("; ")) > 1


def _index(accesses: Sequence[Access], buffer: str) -> str | None:
    for access in accesses:
        if access.buffer == buffer:
            return access.index
    return None


def merged(
    graphs: Sequence[GraphBoundaries], others: Sequence[Boundary] = ()
) -> Boundaries:
    """Return the boundaries of several graphs, and others; equal boundaries are
    merged, most bytes first."""
    found: dict[_Key, Boundary] = {}
    counts: dict[_Key, int] = {}
    for graph in graphs:
        for boundary in graph:
            code = boundary.cause.code if boundary.cause is not None else None
            ends = (boundary.producer, boundary.consumer)
            key = (*ends, boundary.tensor, boundary.kind, code, boundary.between)
            found.setdefault(key, boundary)
            counts[key] = counts.get(key, 0) + 1
    rows = [
        *others,
        *(boundary.times(counts[key]) for key, boundary in found.items()),
    ]
    rows.sort(
        key=lambda one: (-1 if one.bytes is None else one.bytes, one.count),
        reverse=True,
    )
    return Boundaries(
        tuple(rows[:MOST_BOUNDARIES]), max(0, len(rows) - MOST_BOUNDARIES)
    )
