"""FD3xx: fallbacks, guards (what changed between the specialisations of a group) and failures of fusers and
programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from fusiondoc.diagnosis.rules import Context, finding, helps_any_size
from fusiondoc.diagnosis.rules.fd3_crashes import crashed
from fusiondoc.diagnosis.rules.fd3_fd5_crashes_and_wrong_results import (
    describe,
    error_in_words,
    first_user_source,
    remedy_for,
)
from fusiondoc.diagnosis.rules.fd3_fd9_whose_error import came_of
from fusiondoc.diagnosis.rules.fd9_errors_of_ranks import first_words
from fusiondoc.fuser_knobs.catalogue import first_cuda, knows, parse_pair
from fusiondoc.fusers import stand_ins
from fusiondoc.graph.neighbours import feeding
from fusiondoc.model import count, dataclass
from fusiondoc.model.remedies import ANY_SIZE, Remedy, Setting
from fusiondoc.model.report import Evidence, Fallback, Finding, Group, Report
from fusiondoc.parsers.ir.types import TensorType, in_order, parse_type
from fusiondoc.parsers.lines.error_texts import (
    ARCHITECTURE,
    BUILTINS,
    KERNEL,
    OF_FUSER,
    OLD_DRIVER,
    OPTION,
    TOOLCHAIN,
    FuserError,
    is_of_fuser,
    of_stand_alone,
    read_error,
)
from fusiondoc.parsers.observed import LastWork


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
            number = first.count
            likely = min(
                makers,
                key=lambda g: (g.id not in before, abs(g.count - number), len(g.nodes)),
            )
            return FusedProducer(likely, change.place, change.before, change.after)
    return None


def _makes(group: Group, tensor: TensorType) -> bool:
    copies = any(node.op.endswith("_copy") for node in group.nodes)
    return copies and any(_same_type(tensor, output) for output in group.outputs)


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


def remedy_for_more(others: Sequence[Group], gradients: AbstractSet[str], any_size: bool) -> Remedy | str:
    """What saves further specialisations of a group."""
    if any(other.id in gradients for other in others):
        return (
            "Use the same outputs in the loss of every step: one that some steps leave out can be added as"
            " 0 * output.sum(), so that its gradient is always defined."
        )
    keep = "Keep shapes, strides and dtypes the same from call to call"
    if not any_size:
        return f"{keep}, or pad them."
    return Remedy(f"{keep}, pad them, or use dynamic shapes: {ANY_SIZE.text}.", setting=ANY_SIZE)


def fell_back(report: Report, context: Context) -> Iterable[Finding]:
    """FD301 and FD302: a group ran as unfused operators."""
    groups = {group.id: group for group in report.groups}
    everything = not report.kernels and all(group.fallback for group in report.groups)
    for fallback in report.fallbacks:
        group = groups.get(fallback.group or "")
        who = f"Group {describe(group)}" if group else "A fusion group"
        often = f"{'' if fallback.count_exact else 'at least '}{count(fallback.count, 'time')}"
        compiling = fallback.stage == "compile"
        yield finding(
            "FD301" if compiling else "FD302",
            f"{who} fell back to unfused operators while it was {'compiled' if compiling else 'run'}, {often}"
            + error_in_words(fallback)
            + _then_failed(fallback, context),
            source=next((n.user_source for n in group.nodes if n.user_source), None) if group else None,
            evidence=fallback.evidence,
            remedy=remedy_for(fallback, context.rerun, everything),
        )


def _then_failed(fallback: Fallback, context: Context) -> str:
    """What the unfused operators of the group did after it fell back, where they failed as well."""
    for logged in context.observed.errors:
        if not is_of_fuser(logged.text) and came_of(logged, fallback):
            text = first_words(logged.text)
            return f"; its unfused operators then failed too, which is the error of FD905: {text}"
    return ""


def timed_out(report: Report, context: Context) -> Iterable[Finding]:
    """FD905: the program did not end."""
    if context.result.timed_out:
        yield finding(
            "FD905",
            "The program did not end in time and was stopped; this report is of what it did until then"
            + (f" ({context.result.stopped} had stopped it)" if context.result.stopped else ""),
            remedy=Remedy(
                "Give it more time with --timeout;", "the log ends with Python's stack at that moment."
            )
            if context.observed.stacks
            else "Give it more time with --timeout.",
        )


_MORE_SPECIALISATIONS = Setting(knobs={"fusion_strategy": "STATIC:2,DYNAMIC:10"})


def gave_up(report: Report, context: Context) -> Iterable[Finding]:
    """FD304: an unfused copy of the graph runs because no specialisation was left."""
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
            source=next((n.user_source for n in groups[group_id].nodes if n.user_source), None),
            evidence=[e for g in again for e in g.evidence[:1]],
            remedy=remedy_for_more(again, gradients, helps_any_size(report)),
            severity="warning" if more > 1 else "note",
        )


def _strides_of_a_group(group: Group, producer: FusedProducer, again: Sequence[Group]) -> Finding:
    views = sorted({node.op for node in producer.group.nodes if node.op in stand_ins()})
    plain = " and ".join(stand_ins()[op] for op in views)
    return finding(
        "FD305",
        f"Group {describe(group)} was specialised {len(again) + 1} times: {describe(producer.group)},"
        f" once fused, writes input {producer.place} with the strides {producer.after}; the profiled run, not"
        f" fused yet, made it with {producer.before}",
        source=next((n.user_source for n in group.nodes if n.user_source), None),
        evidence=[e for g in again for e in g.evidence[:1]],
        remedy=Remedy(
            "It settles with the new specialisation.",
            f"To save its compilation, write .contiguous() on what that group returns (after {plain}), so"
            " that profiled and fused runs make the same strides.",
        ),
        severity="note",
    )


class _LoggedText(NamedTuple):
    """The text of an error, with its line in the log and the work that was not done by then."""

    text: str
    line: Evidence | None
    work: LastWork | None


def fuser_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: an error of the fuser's own code ended the program, as no fallback caught it."""
    seen = set()
    for text, line, work in _error_texts(context):
        error = read_error(text)
        if error is None or error.kind not in OF_FUSER or (error.kind, error.text) in seen:
            continue
        if of_stand_alone(text) and not report.groups:
            continue  # FD910: knobs and variables of TorchScript are none of its
        seen.add((error.kind, error.text))
        nnc = error.kind == KERNEL and "CUDA NVRTC compile error" not in text
        group = _group_of(report, text, work)
        at = f"; group {describe(group)}" if group else ""
        yield finding(
            "FD307",
            f"{'NNC' if nnc else 'nvFuser'} failed, and the error ended the program: {error}{at}",
            source=first_user_source(group),
            evidence=[line] if line is not None else [],
            remedy=_remedy_for_fuser(error, nnc),
        )


def _error_texts(context: Context) -> Iterable[_LoggedText]:
    """The error that the program ended with, then those of the log."""
    if context.error is not None:
        text = f"{context.error.type}: {context.error.message}"
        yield _LoggedText(text, None, context.observed.last_work)
    for logged in context.observed.errors:
        yield _LoggedText(logged.text, logged.line, logged.work)


_KERNEL_NAME = re.compile(r"\bvoid (fused_\w+)\(")


def _group_of(report: Report, text: str, work: LastWork | None) -> Group | None:
    """The group that was at work; NNC's error holds the source of the kernel, whose name lists the operators
    (generateNameForGraph of torch/csrc/jit/passes/utils/subgraph_utils.cpp)."""
    if work is not None:
        return report.group(work.group)
    named = _KERNEL_NAME.search(text)
    if named is None:
        return None
    names = {g.id: "_".join(["fused", *(op.split("::")[-1] for op in g.ops)]) for g in report.groups}
    found = [g for g in report.groups if names[g.id] == named.group(1)]
    return found[0] if len(found) == 1 else None


def _remedy_for_fuser(error: FuserError, nnc: bool) -> Remedy | str:
    if nnc and "extra text after expected end of number" in error.text:
        return (
            "NNC writes a number with an exponent (such as torch.finfo(...).min, -3.4e+38) so that CUDA"
            " cannot read it: use a number that needs none (-1e4), keep it in a tensor, or turn this fuser"
            " off around the block: with torch.jit.fuser('none')."
        )
    if nnc:
        return "Turn this fuser off around the block (with torch.jit.fuser('none')), or use another torch."
    if error.kind == OPTION:
        return "Take the unknown word out of the variable: fusiondoc knobs lists those that this torch knows."
    if "not possible due to invalid stride" in error.text:
        return Remedy(
            "The rows of an input do not start at a multiple of the vector that the kernel was compiled for.",
            "Make that input contiguous before the block (.contiguous()), or pad its last dimension;"
            " without PYTORCH_NVFUSER_DISABLE=fallback the group runs as unfused operators instead.",
        )
    return (
        "Take the operator that the error names, or the last of the group, out of fusion (--knob"
        " skip_node_kind=OPERATOR), or unset PYTORCH_NVFUSER_DISABLE=fallback: the group then runs unfused."
    )


def toolchain(report: Report, context: Context) -> Iterable[Finding]:
    """FD306: an error of NVRTC, of the driver or of a missing kernel image, whatever raised it; or a crash
    on a GPU that the CUDA of this torch does not know."""
    found = _found(report, context)
    cuda = parse_pair(report.environment.get("cuda"))
    capability = parse_pair(report.environment.get("capability"))
    unknown = cuda is not None and capability is not None and knows(cuda, capability) is False
    if found is None:
        if not (unknown and context.result.signal) or context.result.timed_out:
            return
        found = (None, ())
    error, evidence = found
    yield finding(
        "FD306",
        _message(report, error, unknown),
        evidence=evidence,
        remedy=_remedy(error, capability, cuda),
    )


def _found(report: Report, context: Context) -> tuple[FuserError | None, tuple[Evidence, ...]] | None:
    texts: list[tuple[str, tuple[Evidence, ...]]] = []
    if context.error is not None:
        texts.append((context.error.message, ()))
    texts += [(one.error, tuple(one.evidence)[:1]) for one in report.fallbacks if one.error is not None]
    if context.rerun is not None and context.rerun.error is not None:
        texts.append((context.rerun.error.text, ()))
    texts += [(logged.text, (logged.line,)) for logged in context.observed.errors]
    for text, evidence in texts:
        error = read_error(text) or read_error("RuntimeError: " + text)
        if error is not None and error.kind in TOOLCHAIN:
            return error, evidence
    return None


def _message(report: Report, error: FuserError | None, unknown: bool) -> str:
    gpu = report.environment.get("gpu") or "this GPU"
    capability = parse_pair(report.environment.get("capability"))
    cuda = report.environment.get("cuda")
    who = gpu + (f" (compute capability {capability[0]}.{capability[1]})" if capability else "")
    whose = f"CUDA {cuda} of this torch" if cuda else "The CUDA of this torch"
    if error is None:
        return f"{whose} does not know {who}, and the process died while it used it"
    if error.kind == BUILTINS:
        return f"NVRTC does not find a library that belongs to it: {error}"
    if error.kind == OLD_DRIVER:
        return f"The installed NVIDIA driver is too old for {whose}: {error}"
    if error.kind == ARCHITECTURE or unknown:
        return f"{whose} does not know {who}: {error}"
    return f"This build of torch holds no kernels for {who}: {error}"


def _remedy(
    error: FuserError | None, capability: tuple[int, int] | None, cuda: tuple[int, int] | None
) -> Remedy:
    if error is not None and error.kind == BUILTINS:
        return Remedy(
            "Fusion is not the cause.",
            "Put the folder of libnvrtc-builtins.so of exactly the CUDA version that this torch was"
            " built with on LD_LIBRARY_PATH, and remove other CUDA versions from it.",
        )
    if error is not None and error.kind == OLD_DRIVER:
        return Remedy(
            "Fusion is not the cause.", "Install a newer NVIDIA driver, or a torch with an older CUDA."
        )
    first = first_cuda(capability) if capability is not None else None
    if first is None:
        return Remedy(
            "Fusion is not the cause.",
            "Install a torch whose CUDA knows the GPU: 11.0 for compute capability 8.0, 11.1 for 8.6,"
            " 11.8 for 8.9 and 9.0, 12.8 for 10.0 and 12.0; fusiondoc env shows both.",
        )
    wanted = f"CUDA {first[0]}.{first[1]}"
    if cuda is not None and cuda < first:
        return Remedy("Fusion is not the cause.", f"Install a torch built with {wanted} or newer.")
    return Remedy(
        "Fusion is not the cause.",
        f"{wanted} and newer know this GPU, so look which libnvrtc is loaded (LD_LIBRARY_PATH), and"
        " for which GPUs this torch was built: torch.cuda.get_arch_list().",
    )


RULES = (
    toolchain,
    fell_back,
    crashed,
    fuser_failed,
    timed_out,
    gave_up,
    many_specialisations,
)
"""The toolchain comes first: it explains fallbacks and failures."""
