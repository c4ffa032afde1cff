"""What changed between the specialisations of a group: which input, and what of it."""

from __future__ import annotations

from typing import AbstractSet, Iterable, Sequence

from fusiondoc.model import dataclass
from fusiondoc.model.report import Group, Program, Report
from fusiondoc.parsers.ir.types import TensorType, parse_type


@dataclass(frozen=True)
class Change:
    """Input ``place`` (from 0) differs in ``what``: shape, strides, dtype, device, requires_grad or kind."""

    place: int
    what: str
    before: str
    after: str


def changes(first: Group, again: Group) -> list[Change]:
    """Why the guard of ``first`` refused the inputs of ``again``, for which the group was made anew."""
    found: list[Change] = []
    for place, (one, other) in enumerate(zip(first.inputs, again.inputs)):
        if one != other:
            found.extend(_changes(place, one, other))
    counts = len(first.inputs), len(again.inputs)
    if counts[0] != counts[1]:
        found.append(Change(min(counts), "kind", f"{counts[0]} inputs", f"{counts[1]} inputs"))
    return found


@dataclass(frozen=True)
class FusedProducer:
    """A group that now makes an input contiguous, which the profiled run, not yet fused, made as a view."""

    group: Group
    place: int
    """Which input of the other group."""
    before: str
    after: str


def feeding(first: Group, programs: Iterable[Program]) -> frozenset[str]:
    """The groups whose outputs this one reads, where a plan shows it."""
    return frozenset(
        maker
        for program in programs
        for before, after in program.edges
        for maker in (program.nodes[before].group,)
        if maker is not None and program.nodes[after].group == first.id
    )


def fused_producer(first: Group, again: Group, report: Report) -> FusedProducer | None:
    """What made the guard of ``first`` fail, if it is a group of the same program: only strides differ, the
    new ones are contiguous, and a group that takes a view in gives a tensor of the old type. Where nvFuser
    takes a permute or an expand into a group, its kernel writes the result out in order, while the profiled
    run handed on a view (``prim::permute_copy`` and the like; third_party/nvfuser/csrc/parser.cpp). Of
    several such groups one that ``first`` reads counts then the one with as many
    instances."""
    before = feeding(first, report.programs)
    changed = changes(first, again)
    if any(change.what != "strides" for change in changed):
        return None
    for change in changed:
        tensor, other = parse_type(first.inputs[change.place]), parse_type(again.inputs[change.place])
        if not isinstance(tensor, TensorType) or not isinstance(other, TensorType) or not in_order(other):
            continue
        makers = [
            group for group in report.groups if group.id not in (first.id, again.id) and _makes(group, tensor)
        ]
        if makers:
            number = len(first.instances)
            likely = min(
                makers,
                key=lambda g: (g.id not in before, abs(len(g.instances) - number), len(g.nodes)),
            )
            return FusedProducer(likely, change.place, change.before, change.after)
    return None


def _makes(group: Group, tensor: TensorType) -> bool:
    copies = any(node.op.endswith("_copy") for node in group.nodes)
    return copies and any(_same_type(tensor, output) for output in group.outputs)


def in_order(tensor: TensorType) -> bool:
    """Whether it is contiguous."""
    if tensor.sizes is None or tensor.strides is None:
        return False
    step = 1
    for size, stride in zip(reversed(tensor.sizes), reversed(tensor.strides)):
        if size is None or (size != 1 and stride != step):
            return False
        step *= size
    return True


def _same_type(tensor: TensorType, output: str) -> bool:
    made = parse_type(output)
    return isinstance(made, TensorType) and (made.dtype, made.sizes, made.strides) == (
        tensor.dtype,
        tensor.sizes,
        tensor.strides,
    )


def _changes(place: int, one: str, other: str) -> Iterable[Change]:
    a, b = parse_type(one), parse_type(other)
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        yield Change(place, "kind", one, other)
        return
    shapes = _shape(a), _shape(b)
    if shapes[0] != shapes[1]:
        yield Change(place, "shape", *shapes)
    elif a.strides != b.strides:
        yield Change(place, "strides", str(list(a.strides or ())), str(list(b.strides or ())))
    for what in ("dtype", "device", "requires_grad"):
        before, after = getattr(a, what), getattr(b, what)
        if before != after:
            yield Change(place, what, str(before), str(after))


def _shape(tensor: TensorType) -> str:
    if tensor.sizes is None:
        return "unknown"
    return "(" + ", ".join("any" if size is None else str(size) for size in tensor.sizes) + ")"


def in_words(first: Group, others: Sequence[Group], gradients: AbstractSet[str] = frozenset()) -> str:
    """``input 0 came with the shapes (4, 8), (5, 8)``: the input and property that changed most.

    Args:
        gradients: the groups that were made again because other gradients were defined.
    """
    if any(other.id in gradients for other in others):
        return "other gradients were defined then than in the first plan"
    seen: dict[tuple[int, str], list[str]] = {}
    for other in others:
        for change in changes(first, other):
            values = seen.setdefault((change.place, change.what), [change.before])
            if change.after not in values:
                values.append(change.after)
    if not seen:
        return "for other input types each time"
    (place, what), values = max(seen.items(), key=lambda item: len(item[1]))
    listed = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
    return f"input {place} came with {what if what.endswith('s') else what + 's'} {listed}"


def advice_on_more(others: Sequence[Group], gradients: AbstractSet[str]) -> str:
    """What saves further specialisations of a group."""
    if any(other.id in gradients for other in others):
        return (
            "Use the same outputs in the loss of every step: one that some steps leave out can be added as"
            " 0 * output.sum(), so that its gradient is always defined."
        )
    return (
        "Keep shapes, strides and dtypes the same from call to call, pad them, or use dynamic shapes:"
        " --knob fusion_strategy=DYNAMIC:10."
    )
