"""FD403, FD406, FD407 and FD408: more kernels, compilations and copies than the model needs."""

from __future__ import annotations

from itertools import islice
from typing import Iterable, Mapping, Sequence

from fusiondoc.diagnosis.rules.fd3_failures import describe
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.diagnosis.speed_of_light import LAUNCH, counted_bytes, launch_bound_below, must_move
from fusiondoc.model.report import Finding, Group, Kernel, Report, Unfused
from fusiondoc.model.shape_rows import by_inputs
from fusiondoc.model.source import Source

IN_A_ROW = 4
"""So many small groups in a row are worth a word."""

SHAPES = 3
"""From so many shapes on that each compiled."""

NEAR = 3
"""Lines of the program between a copy and an operator of the group that it is next to."""


def segmented(report: Report, context: Context) -> Iterable[Finding]:
    """FD403: a group that runs as several kernels, which pass values through memory."""
    kernels = {kernel.id: kernel for kernel in report.kernels}
    runs = _runs_of_kernels(report)
    for group in report.groups:
        # Of one instance: a traced layer has kernels of its own.
        names_of_one = next((one.kernels for one in group.instances if one.kernels), group.kernels)
        mine = [kernels[name] for name in names_of_one if name in kernels]
        count = len(group.segments) if len(group.segments) > 1 else _kernels_a_run(mine, runs)
        if count < 2 or group.kernels_left_out or any(kernel.groups_left_out for kernel in mine):
            continue
        extra = _extra_bytes(group, mine) if len(mine) == count else None
        names = ", ".join(kernel.id for kernel in mine)
        costs = f"; between them {extra / 1e6:,.1f} MB are written and read again" if extra else ""
        yield finding(
            "FD403",
            f"Group {describe(group)} runs as {count} kernels ({names}){costs}{_why(group)}",
            source=_line_of(group),
            evidence=list(islice((line for kernel in mine for line in kernel.evidence[:1]), 3)),
            advice="nvFuser found no schedule for all of it. Reductions over different dimensions cannot"
            " share a kernel: a gradient of a broadcast bias or weight is such a one, and a frozen one"
            " (requires_grad=False) needs none.",
            saves_bytes=extra,
        )


def _runs_of_kernels(report: Report) -> dict[str, int | None]:
    """Id of a kernel -> how often the instances ran that it is a kernel of; None where the log does not
    tell of one of them."""
    runs: dict[str, int | None] = {}
    for group in report.groups:
        for one in group.instances:
            for name in one.kernels:
                known = runs.get(name, 0)
                runs[name] = None if known is None or one.runs is None else known + one.runs
    return runs


def _kernels_a_run(kernels: Sequence[Kernel], runs: Mapping[str, int | None]) -> int:
    """How many kernels one run of the group launches: their launches over the runs of the groups that have
    them. Kernels for other shapes of the same group do not count. 0 where the log does not tell."""
    each = []
    for kernel in kernels:
        total = runs.get(kernel.id)
        if kernel.launches is None or not total:
            return 0
        each.append(kernel.launches / total)
    return round(sum(each))


def _extra_bytes(group: Group, kernels: Sequence[Kernel]) -> int | None:
    """What the kernels move beyond the group's inputs and outputs."""
    counted = [counted_bytes(kernel) for kernel in kernels]
    least = must_move(group)
    if least is None or None in counted:
        return None
    extra = sum(one for one in counted if one is not None) - least
    return round(extra) if extra > 0.01 * least else None


def _why(group: Group) -> str:
    refusals = dict.fromkeys(text for segment in group.segments for _, text in segment.refused)
    return f"; nvFuser: {next(iter(refusals))}" if refusals else ""


def many_small_groups(report: Report, context: Context) -> Iterable[Finding]:
    """FD406: launch-bound groups one after the other."""
    peak = report.peak.gb_per_s if report.peak is not None else None
    kernels = {kernel.id: kernel for kernel in report.kernels}
    row: list[Group] = []
    for group in (*report.groups, None):
        small = group is not None and _is_small(group, kernels, launch_bound_below(peak))
        if small and group is not None and (not row or _follows(row[-1], group)):
            row.append(group)
            continue
        if len(row) >= IN_A_ROW:
            yield _row(row, report)
        row = [group] if small and group is not None else []


def _is_small(group: Group, kernels: dict[str, Kernel], limit: float) -> bool:
    """Whether every kernel of it is launch-bound; without kernels, by its types, on a GPU."""
    if group.specialisation != 1 or group.fallback:
        return False
    mine = [kernels[name] for name in group.kernels if name in kernels]
    if mine:
        return all(kernel.bound == LAUNCH for kernel in mine)
    moved = must_move(group)
    return moved is not None and moved < limit and any("device=cuda" in text for text in group.inputs)


def _follows(one: Group, other: Group) -> bool:
    return (one.phase, one.rank, one.kind) == (other.phase, other.rank, other.kind)


def _row(row: Sequence[Group], report: Report) -> Finding:
    phase = f" of the {row[0].phase}" if row[0].phase else ""
    between = sorted(
        {one.op for one in report.unfused if one.phase == row[0].phase and one.reason.stated},
    )
    return finding(
        "FD406",
        f"{len(row)} small groups in a row{phase} ({row[0].id} to {row[-1].id}): each launch takes longer"
        " than to move its data",
        source=_line_of(row[0]),
        evidence=[line for group in row for line in group.evidence[:1]][:3],
        advice="Join them"
        + (f": what is not fused there is {', '.join(between[:4])}" if between else "")
        + ". Matrix products stay between groups; then a larger batch, or CUDA graphs, make the "
        "launches count less.",
    )


def recompiled(report: Report, context: Context) -> Iterable[Finding]:
    """FD407: every shape of the inputs is compiled for, or a kernel is compiled again and again."""
    rows = by_inputs(report.iterations, report.groups)
    compiled = [row for row in rows if row.compiled and row.groups]
    if len(rows) >= SHAPES and len(compiled) == len(rows):
        cost = _cost(report, [row.steady for row in rows if row.steady is not None])
        yield finding(
            "FD407",
            f"The model was compiled for each of {len(rows)} shapes of its inputs{cost}",
            advice="Allow groups that take any size: --knob fusion_strategy=DYNAMIC:10"
            " (torch.jit.set_fusion_strategy); or pad the inputs to fewer shapes.",
        )
    for kernel in report.kernels:
        if kernel.compiles is not None and kernel.compiles >= SHAPES:
            yield finding(
                "FD407",
                f"Kernel {kernel.id} was compiled {kernel.compiles} times, for launches of other sizes",
                evidence=kernel.evidence[:3],
                advice="Run the largest shape first: a kernel that was compiled for a larger block serves"
                " smaller ones too.",
            )


def _cost(report: Report, steady: Sequence[float]) -> str:
    """What the slowest pass that compiled took, where that is more than a steady one."""
    compiling = [
        one.seconds for one in report.iterations if one.stage == "compiling" and one.seconds is not None
    ]
    if not compiling or not steady or max(compiling) < 1.5 * max(steady):
        return ""
    return (
        f": a pass that compiles took up to {max(compiling) * 1e3:,.1f} ms, a steady one"
        f" {min(steady) * 1e3:,.1f} ms"
    )


_VIEWS = ("aten::transpose", "aten::permute", "aten::t")
_COPIES = ("aten::contiguous", "aten::clone")


def layout_copies(report: Report, context: Context) -> Iterable[Finding]:
    """FD408: copies next to a group that only change the layout."""
    turned = {(row.source, row.phase) for row in report.unfused if row.op in _VIEWS and row.source}
    for row in report.unfused:
        source = row.source or ""
        if source.startswith("<string>"):
            continue  # a line of an autodiff formula: reshape there undoes an expansion
        copies = row.op in _COPIES or (row.op == "aten::reshape" and (row.source, row.phase) in turned)
        beside = _beside(row, report.groups) if copies else None
        if beside is None:
            continue
        size = f" of {row.bytes_moved / 2e6:,.1f} MB" if row.bytes_moved else ""
        how = "of a transposed tensor " if row.op == "aten::reshape" else ""
        yield finding(
            "FD408",
            f"{row.op} {how}copies its tensor{size} next to group {beside.id}, only to change its layout",
            source=row.user_source,
            evidence=row.evidence[:3],
            advice="Keep one layout through the block: transpose after it instead of before, use reshape"
            " only where the layout fits, and drop contiguous() in front of operators that a fuser takes"
            " (it reads any strides).",
            saves_bytes=row.bytes_moved,
        )


def _beside(row: Unfused, groups: Sequence[Group]) -> Group | None:
    """A group of the same phase with an operator at most a few lines away."""
    place = Source.parse(row.user_source or row.source)
    if place is None or not place.has_file:
        return None
    for group in groups:
        if group.phase == row.phase and group.rank == row.rank:
            for node in group.nodes:
                other = Source.parse(node.user_source or node.source)
                if other is not None and other.file == place.file and abs(other.line - place.line) <= NEAR:
                    return group
    return None


def _line_of(group: Group) -> str | None:
    return next((node.user_source for node in group.nodes if node.user_source), None)


RULES = (segmented, many_small_groups, recompiled, layout_copies)
