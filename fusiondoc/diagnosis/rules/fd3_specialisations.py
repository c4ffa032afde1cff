"""FD304 and FD305: guards: the differences between the specialisations of a group,
and what runs if none is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.rules import Context, finding, helps_any_size
from fusiondoc.diagnosis.rules.groups_in_words import describe
from fusiondoc.fusers import stand_ins
from fusiondoc.graph.neighbours import feeding
from fusiondoc.model import dataclass
from fusiondoc.model.group_runs import GuardMiss
from fusiondoc.model.remedies import ANY_SIZE, Remedy, Setting
from fusiondoc.model.report import Finding, Group, Report
from fusiondoc.parsers.ir.types import TensorType, in_order, parse_type


def misses_of(first: Group, again: Group) -> list[GuardMiss]:
    """Return why the guard of ``first`` refused the inputs of ``again``, a later
    specialisation of the group."""
    return [miss for miss in again.guard_misses if miss.group == first.id]


@dataclass(frozen=True)
class FusedProducer:
    """A group that now makes an input contiguous, where the profiled run, not yet
    fused, made it as a view."""

    group: Group
    input: int
    """The index of the other group's input."""
    before: str
    after: str


def fused_producer(
    first: Group, again: Group, report: Report
) -> FusedProducer | None:
    """Return the group of the same program that made the guard of ``first`` fail,
    if there is one: only strides differ, the new ones are contiguous, and a group
    that includes a view returns a tensor of the old type.

    If a fuser takes a permute or an expand into a group
    (``TakenOperators.stand_ins``), the group's kernel writes the result in memory
    order, while the profiled run returned a view. Of several such groups one that
    ``first`` reads is preferred, then the one with the same number of instances.
    """
    before = feeding(first, report.programs)
    misses = misses_of(first, again)
    if any(miss.what != "strides" for miss in misses):
        return None
    for miss in misses:
        tensor, other = (
            parse_type(first.inputs[miss.input]),
            parse_type(again.inputs[miss.input]),
        )
        if (
            not isinstance(tensor, TensorType)
            or not isinstance(other, TensorType)
            or not in_order(other)
        ):
            continue
        makers = []
        for group in report.groups:
            if group.id not in (first.id, again.id) and _makes(group, tensor):
                makers.append(group)
        if makers:
            number = first.count
            likely = min(
                makers,
                key=lambda g: (
                    g.id not in before,
                    abs(g.count - number),
                    len(g.nodes),
                ),
            )
            return FusedProducer(likely, miss.input, miss.expected, miss.seen)
    return None


def _makes(group: Group, tensor: TensorType) -> bool:
    copies = any(node.op.endswith("_copy") for node in group.nodes)
    return copies and any(_same_type(tensor, output) for output in group.outputs)


def _same_type(tensor: TensorType, output: str) -> bool:
    made = parse_type(output)
    return isinstance(made, TensorType) and (
        made.dtype,
        made.sizes,
        made.strides,
    ) == (
        tensor.dtype,
        tensor.sizes,
        tensor.strides,
    )


def in_words(
    first: Group, others: Sequence[Group], gradients: AbstractSet[str] = frozenset()
) -> str:
    """Return ``input 0 came with the shapes (4, 8), (5, 8)``: the input and
    property that changed most.

    Args:
        gradients: the groups that were specialised again because other gradients
            were defined.
    """
    if any(other.id in gradients for other in others):
        return "other gradients were defined then than in the first plan"
    seen: dict[tuple[int, str], list[str]] = {}
    for other in others:
        for miss in misses_of(first, other):
            values = seen.setdefault((miss.input, miss.what), [miss.expected])
            if miss.seen not in values:
                values.append(miss.seen)
    if not seen:
        return "for other input types each time"
    (number, what), values = max(seen.items(), key=lambda item: len(item[1]))
    listed = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
    return f"input {number} came with {what if what.endswith('s') else what + 's'} {listed}"


def remedy_for_more(
    others: Sequence[Group], gradients: AbstractSet[str], any_size: bool
) -> Remedy | str:
    """Return the remedy that avoids further specialisations of a group."""
    if any(other.id in gradients for other in others):
        return (
            "Use the same outputs in the loss of every step: one that some steps leave out can be added as"
            " 0 * output.sum(), so that its gradient is always defined."
        )
    keep = "Keep shapes, strides and dtypes the same from call to call"
    if not any_size:
        return f"{keep}, or pad them."
    return Remedy(
        f"{keep}, pad them, or use dynamic shapes: {ANY_SIZE.text}.",
        setting=ANY_SIZE,
    )


_MORE_SPECIALISATIONS = Setting(knobs={"fusion_strategy": "STATIC:2,DYNAMIC:10"})


def gave_up(report: Report, context: Context) -> Iterable[Finding]:
    """FD304: an unfused copy of the graph runs because no specialisation was
    left."""
    rows = [row for row in report.unfused if row.reason.code == "FD304"]
    if rows:
        yield finding(
            "FD304",
            f"{sum(row.count for row in rows)} operators run unfused for some inputs: a guard failed and no"
            " specialisation was left",
            source=rows[0].user_source,
            evidence=rows[0].evidence[:3],
            remedy=Remedy(
                f"Allow more or dynamic specialisations: {_MORE_SPECIALISATIONS.text}"
                " (torch.jit.set_fusion_strategy), or pad the inputs to fewer shapes.",
                setting=_MORE_SPECIALISATIONS,
            ),
            rows=rows,
        )


def many_specialisations(report: Report, context: Context) -> Iterable[Finding]:
    """FD305: a group was compiled again for other input types."""
    counts: dict[str, int] = {}
    for group in report.groups:
        if group.respecialises:
            counts[group.respecialises] = counts.get(group.respecialises, 0) + 1
    groups = {group.id: group for group in report.groups}
    for group_id, more in counts.items():
        again = [g for g in report.groups if g.respecialises == group_id]
        gradients = context.observed.other_gradients
        why = in_words(groups[group_id], again, gradients)
        made = [fused_producer(groups[group_id], other, report) for other in again]
        producer = made[0]
        if producer is not None and all(made):
            yield _strides_of_a_group(groups[group_id], producer, again)
            continue
        yield finding(
            "FD305",
            f"Group {describe(groups[group_id])} was specialised {more + 1} times: {why}",
            source=groups[group_id].first_line,
            evidence=[e for g in again for e in g.evidence[:1]],
            remedy=remedy_for_more(again, gradients, helps_any_size(report)),
            severity="warning" if more > 1 else "note",
        )


def _strides_of_a_group(
    group: Group, producer: FusedProducer, again: Sequence[Group]
) -> Finding:
    views = sorted(
        {node.op for node in producer.group.nodes if node.op in stand_ins()}
    )
    plain = " and ".join(stand_ins()[op] for op in views)
    return finding(
        "FD305",
        f"Group {describe(group)} was specialised {len(again) + 1} times: {describe(producer.group)},"
        f" once fused, writes input {producer.input} with the strides {producer.after}; the profiled run, not"
        f" fused yet, made it with {producer.before}",
        source=group.first_line,
        evidence=[e for g in again for e in g.evidence[:1]],
        remedy=Remedy(
            "It settles with the new specialisation.",
            f"To save its compilation, write .contiguous() on what that group returns (after {plain}), so"
            " that profiled and fused runs make the same strides.",
        ),
        severity="note",
    )


SPECIALISATIONS = (gave_up, many_specialisations)
