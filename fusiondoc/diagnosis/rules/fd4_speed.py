"""FD403, FD406, FD407 and FD408: more kernels, compilations and copies than the
model needs.

FD401, FD402, FD404 and FD405: causes that slow a kernel down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.diagnosis.rules import Context, finding, helps_any_size
from fusiondoc.diagnosis.rules.groups_in_words import describe
from fusiondoc.diagnosis.speed_of_light import (
    BANDWIDTH,
    FLOOR_MS,
    LAUNCH,
    counted_bytes,
    in_bytes,
    launch_bound_below,
    little_of_the_step,
    must_move,
    needed_ms,
)
from fusiondoc.fusers import FUSER_OF_KIND, facts_of
from fusiondoc.model.passes_by_inputs import by_inputs
from fusiondoc.model.remedies import ANY_SIZE, Remedy, Setting
from fusiondoc.model.report import Finding, Group, Kernel, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.operators import of
from fusiondoc.operators.kinds import OperatorKind
from fusiondoc.parsers.ir.types import TensorType, in_order, parse_type

IN_A_ROW = 4
"""The number of small groups in a row from which they are a finding."""

SHAPES = 3
"""The number of shapes, each compiled, from which they are a finding."""

NEAR = 3
"""Lines of the program between a copy and the nearest operator of a group, at
most."""


def segmented(report: Report, context: Context) -> Iterable[Finding]:
    """FD403: a group that runs as several kernels, which pass values through
    memory."""
    kernels = {kernel.id: kernel for kernel in report.kernels}
    for group in report.groups:
        launched = _launched_together(group)
        own = []
        for name in launched:
            if name in kernels:
                own.append(kernels[name])
        number = len(group.segments) or len(launched)
        if (
            number < 2
            or group.kernels_left_out
            or any(kernel.groups_left_out for kernel in own)
        ):
            continue
        extra = _extra_bytes(group, own) if len(own) == number else None
        names = ", ".join(kernel.id for kernel in own)
        costs = ""
        if extra:
            costs = f"; between them {in_bytes(extra)} are written and read again"
        evidence = []
        for kernel in own:
            if kernel.evidence:
                evidence.append(kernel.evidence[0])
        yield finding(
            "FD403",
            f"Group {describe(group)} runs as {number} kernels ({names}){costs}{_why(group)}",
            source=group.first_line,
            evidence=evidence[:3],
            remedy=Remedy(
                f"{_title(group)} found no schedule for all of it.",
                "Reductions over different dimensions cannot share a kernel: the gradient of a broadcast bias"
                " or weight is such a reduction, and a frozen parameter (requires_grad=False) needs none.",
            ),
            saves_bytes=extra,
        )


def _launched_together(group: Group) -> Sequence[str]:
    """Return the kernels that a run of the group launches: the most, if it was
    compiled for several inputs. For a log without launches those of the segments
    that the fuser names."""
    if group.runtimes or not group.segments:
        return max(
            (runtime.kernels for runtime in group.runtimes), key=len, default=()
        )
    for one in group.instances:
        if one.kernels:
            return one.kernels
    return group.kernels


def _extra_bytes(group: Group, kernels: Sequence[Kernel]) -> int | None:
    """Return the bytes that the kernels move beyond the group's inputs and
    outputs."""
    counted = [counted_bytes(kernel) for kernel in kernels]
    least = must_move(group)
    if least is None or None in counted:
        return None
    extra = sum(one for one in counted if one is not None) - least
    if extra > 0.01 * least:
        return round(extra)
    return None


def _why(group: Group) -> str:
    refusals: dict[str, None] = {}
    for segment in group.segments:
        for _, text in segment.refused:
            refusals[text] = None
    if refusals:
        return f"; {_title(group)}: {next(iter(refusals))}"
    return ""


def _title(group: Group) -> str:
    fuser = FUSER_OF_KIND.get(group.kind)
    if fuser is None:
        return "the fuser"
    return fuser.title


def many_small_groups(report: Report, context: Context) -> Iterable[Finding]:
    """FD406: launch-bound groups one after the other."""
    peak = report.peak.gb_per_s if report.peak is not None else None
    kernels = {kernel.id: kernel for kernel in report.kernels}
    refused: dict[str | None, set[str]] = {}
    for one in report.unfused:
        if one.reason.stated:
            refused.setdefault(one.phase, set()).add(one.op)
    row: list[Group] = []
    for group in (*report.groups, None):
        small = group is not None and _is_small(
            group, kernels, launch_bound_below(peak)
        )
        if small and group is not None and (not row or _follows(row[-1], group)):
            row.append(group)
            continue
        if len(row) >= IN_A_ROW:
            yield _row(row, sorted(refused.get(row[0].phase, ())))
        row = [group] if small and group is not None else []


def _is_small(group: Group, kernels: dict[str, Kernel], limit: float) -> bool:
    """True if each of its kernels is launch-bound; without kernels, by its types,
    on a GPU."""
    if group.specialisation != 1 or group.fallback:
        return False
    mine = []
    for name in group.kernels:
        if name in kernels:
            mine.append(kernels[name])
    if mine:
        return all(kernel.bound == LAUNCH for kernel in mine)
    moved = must_move(group)
    return (
        moved is not None
        and moved < limit
        and any("device=cuda" in text for text in group.inputs)
    )


def _follows(one: Group, other: Group) -> bool:
    return (one.phase, one.rank, one.kind) == (other.phase, other.rank, other.kind)


def _row(row: Sequence[Group], between: Sequence[str]) -> Finding:
    """Return the finding on a row of small groups.

    Args:
        between: operators of its phase that a fuser refused.
    """
    phase = f" of the {row[0].phase}" if row[0].phase else ""
    return finding(
        "FD406",
        f"{len(row):,} small groups in a row{phase} ({row[0].id} to {row[-1].id}): each launch takes longer"
        " than moving its data",
        source=row[0].first_line,
        evidence=[line for group in row for line in group.evidence[:1]][:3],
        remedy=Remedy(
            f"Join them: between them {', '.join(between[:4])} stay unfused."
            if between
            else "Join them.",
            "Matrix products stay between groups; then a larger batch, or CUDA graphs, make the launches"
            " count less.",
        ),
    )


def recompiled(report: Report, context: Context) -> Iterable[Finding]:
    """FD407: every shape of the inputs is compiled, or a kernel is compiled again
    and again."""
    rows = by_inputs(report.iterations, report.groups)
    compiled = [row for row in rows if row.compiled and row.groups]
    if len(rows) >= SHAPES and len(compiled) == len(rows):
        cost = _cost(report, [row.steady for row in rows if row.steady is not None])
        yield finding(
            "FD407",
            f"The model was compiled for each of {len(rows):,} shapes of its inputs{cost}",
            remedy=Remedy(
                f"Allow groups that take any size: {ANY_SIZE.text} (torch.jit.set_fusion_strategy);",
                "or pad the inputs to fewer shapes.",
                ANY_SIZE,
            )
            if helps_any_size(report)
            else "Pad the inputs to fewer shapes.",
        )
    for kernel in report.kernels:
        if kernel.compiles is not None and kernel.compiles >= SHAPES:
            yield finding(
                "FD407",
                f"Kernel {kernel.id} was compiled {kernel.compiles} times, for launches of other sizes",
                evidence=kernel.evidence[:3],
                remedy="Run the largest shape first: a kernel that was compiled for a larger block serves"
                " smaller ones too.",
            )


def _cost(report: Report, steady: Sequence[float]) -> str:
    """Return the time of the slowest pass that compiled, if it is longer than a
    steady pass."""
    compiling = []
    for one in report.iterations:
        if one.stage == "compiling" and one.seconds is not None:
            compiling.append(one.seconds)
    if not compiling or not steady or max(compiling) < 1.5 * max(steady):
        return ""
    return (
        f": a pass that compiles took up to {max(compiling) * 1e3:,.1f} ms, a steady one"
        f" {min(steady) * 1e3:,.1f} ms"
    )


_COPIES = ("aten::contiguous", "aten::clone")


def _reorders(report: Report) -> dict[int | None, bool]:
    """Map the row (``Unfused.index``) of copies to True if one of them reorders its
    tensor, as far as known."""
    found: dict[int | None, bool] = {}
    for program in report.programs:
        for node in program.nodes:
            if node.op in _COPIES and node.inputs:
                taken = parse_type(node.inputs[0])
                if (
                    isinstance(taken, TensorType)
                    and taken.sizes
                    and taken.strides is not None
                ):
                    for row in node.rows:
                        found[row] = found.get(row, False) or not in_order(taken)
    return found


def layout_copies(report: Report, context: Context) -> Iterable[Finding]:
    """FD408: copies next to a group that only change the layout."""
    turned = set()
    for row in report.unfused:
        if row.op in of(OperatorKind.TRANSPOSES) and row.source:
            turned.add((row.source, row.phase))
    reorders = _reorders(report)
    near = _Near(report.groups)
    for row in report.unfused:
        source = row.source or ""
        if source.startswith("<string>"):
            continue  # a line of an autodiff formula: reshape there undoes an expansion
        copies = row.op in _COPIES or (
            row.op == "aten::reshape" and (row.source, row.phase) in turned
        )
        # A clone of a tensor in memory order does not reorder it.
        if row.op in _COPIES and not reorders.get(
            row.index, row.op != "aten::clone"
        ):
            continue
        beside = near.group_of(row) if copies else None
        if beside is None:
            continue
        size = f" of {in_bytes(row.bytes_moved // 2)}" if row.bytes_moved else ""
        how = "of a transposed tensor " if row.op == "aten::reshape" else ""
        yield finding(
            "FD408",
            f"{row.op} {how}copies its tensor{size} next to group {beside.id}, only to change its layout",
            source=row.user_source,
            evidence=row.evidence[:3],
            remedy="Keep one layout through the block: transpose after it instead of before, use reshape"
            " only where the layout fits, and drop contiguous() in front of operators that a fuser takes"
            " (it reads any strides).",
            saves_bytes=row.bytes_moved,
        )


class _Near:
    """The groups by the lines of their operators."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self._first: dict[tuple[str | None, int | None, str, int], int] = {}
        """Phase, rank, file, line -> the first group with an operator of that
        line."""
        for number, group in enumerate(groups):
            for node in group.nodes:
                position = Source.parse(node.user_source or node.source)
                if position is not None:
                    self._first.setdefault(
                        (group.phase, group.rank, position.file, position.line),
                        number,
                    )

    def group_of(self, row: Unfused) -> Group | None:
        """Return the first group of the same phase with an operator at most a few
        lines away."""
        position = Source.parse(row.user_source or row.source)
        if position is None or not position.has_file:
            return None
        lines = range(position.line - NEAR, position.line + NEAR + 1)
        found = []
        for line in lines:
            found.append(
                self._first.get((row.phase, row.rank, position.file, line))
            )
        numbers = [number for number in found if number is not None]
        if numbers:
            return self._groups[min(numbers)]
        return None


SLOW = 2.0
"""A kernel is slow if it takes more than this many times the time of its launch
plus the transfer at full bandwidth."""

LOW_OCCUPANCY = 0.5

_NAMED = 6


def slow_kernels(report: Report, context: Context) -> Iterable[Finding]:
    """FD401: a kernel is far from the memory bandwidth."""
    peak = report.peak
    for kernel in report.kernels:
        if peak is None or not _is_slow(kernel, peak.gb_per_s):
            continue
        assert (
            kernel.ms is not None
            and kernel.bytes_moved is not None
            and kernel.peak_fraction is not None
        )
        at_best = FLOOR_MS + needed_ms(kernel.bytes_moved, peak.gb_per_s)
        yield finding(
            "FD401",
            f"Kernel {named(kernel)} reaches {kernel.peak_fraction:.0%} of the memory bandwidth"
            f" ({peak.gb_per_s:,.0f} GB/s, {WHENCE[peak.source]}): {in_bytes(kernel.bytes_moved)} in"
            f" {kernel.ms.median * 1e3:.1f} us; a launch that moves them at full bandwidth takes"
            f" {at_best * 1e3:.1f} us",
            source=_source(report, kernel),
            evidence=kernel.evidence[:3],
            remedy=_remedy(kernel, report.fuser.effective),
            # A kernel that moves little costs little, however slow it is.
            severity="note"
            if kernel.bytes_moved < launch_bound_below(peak.gb_per_s)
            or little_of_the_step(kernel, kernel.ms.median - at_best, report)
            else None,
        )


def _is_slow(kernel: Kernel, peak: float) -> bool:
    if kernel.bound != BANDWIDTH or kernel.ms is None or kernel.bytes_moved is None:
        return False
    return kernel.ms.median > SLOW * (
        FLOOR_MS + needed_ms(kernel.bytes_moved, peak)
    )


def _remedy(kernel: Kernel, fuser: str | None) -> Remedy | str:
    if kernel.spill_bytes:
        return "It spills registers (FD404): fix that first."
    if kernel.occupancy is not None and kernel.occupancy < LOW_OCCUPANCY:
        return f"{kernel.occupancy:.0%} of the warps fit on a multiprocessor (FD405): make the group smaller."
    timed = Setting(fuser=facts_of(fuser).instead[0], flags=("--time",))
    return Remedy(
        f"Time it against another fuser and against eager code: {timed.text}.",
        setting=timed,
    )


WHENCE = {
    "given": "given with --peak",
    "measured": "measured",
    "driver": "by the driver",
    "table": "from the table by the GPU's name",
}
"""Source of a peak -> words."""


def launch_bound(report: Report, context: Context) -> Iterable[Finding]:
    """FD402: kernels that move too little for bandwidth to matter; one finding for
    all of them."""
    rows = []
    for kernel in report.kernels:
        if kernel.bound == LAUNCH and kernel.ms is not None:
            rows.append(kernel)
    if not rows:
        return
    times = []
    for kernel in rows:
        if kernel.ms is not None:
            times.append(kernel.ms.median * 1e3)
    times.sort()
    peak = report.peak.gb_per_s if report.peak is not None else None
    if len(times) == 1:
        took = f"{times[0]:.1f} us"
    else:
        took = f"{times[0]:.1f} to {times[-1]:.1f} us"
    yield finding(
        "FD402",
        f"{len(rows):,} of {len(report.kernels):,} kernels are launch-bound ({_list(rows)}): they move"
        f" less than {launch_bound_below(peak) / 1e6:.1f} MB, which takes less time than the launch itself"
        f" (about {FLOOR_MS * 1e3:g} us); they took {took}",
        evidence=[line for kernel in rows for line in kernel.evidence[:1]][:3],
        remedy=Remedy(
            "Make fewer launches: fuse the operators between them, use a larger batch, or put CUDA graphs"
            " around the whole step.",
            "Their share of the peak bandwidth shows nothing.",
        ),
    )


def spills(report: Report, context: Context) -> Iterable[Finding]:
    """FD404: registers that spill to memory."""
    for kernel in report.kernels:
        if kernel.spill_bytes:
            yield finding(
                "FD404",
                f"Kernel {named(kernel)} spills registers: {kernel.spill_bytes} bytes are stored to and"
                " loaded from memory by each thread"
                + (
                    f", with {kernel.registers} registers"
                    if kernel.registers is not None
                    else ""
                ),
                source=_source(report, kernel),
                evidence=kernel.evidence[:3],
                remedy="Split the group, so that a thread holds fewer values at once: take an operator out"
                " of it (--knob skip_node_kind=OPERATOR), or normalise over a smaller dimension.",
            )


def low_occupancy(report: Report, context: Context) -> Iterable[Finding]:
    """FD405: few warps fit on a multiprocessor, in a kernel that does not reach the
    bandwidth either."""
    peak = report.peak
    for kernel in report.kernels:
        if kernel.occupancy is None or kernel.occupancy >= LOW_OCCUPANCY:
            continue
        if peak is None or not _is_slow(kernel, peak.gb_per_s):
            continue
        yield finding(
            "FD405",
            f"Kernel {named(kernel)} lets {kernel.occupancy:.0%} of the warps be resident{_needs(kernel)}",
            source=_source(report, kernel),
            evidence=kernel.evidence[:3],
            remedy=Remedy(
                "Split the group, or compute in half precision, so that a thread needs fewer registers.",
                "Few warps do not keep the memory busy.",
            ),
        )


def _needs(kernel: Kernel) -> str:
    needs = []
    if kernel.block is not None:
        needs.append(
            f"{kernel.block[0] * kernel.block[1] * kernel.block[2]} threads a block"
        )
    if kernel.registers is not None:
        needs.append(f"{kernel.registers} registers a thread")
    if kernel.smem_bytes:
        needs.append(f"{kernel.smem_bytes:,} bytes of shared memory a block")
    if needs:
        return ": " + ", ".join(needs)
    return ""


def named(kernel: Kernel) -> str:
    """Return ``K1 (G1)``."""
    return kernel.id + (
        f" ({', '.join(kernel.groups[:3])})" if kernel.groups else ""
    )


def _list(kernels: Sequence[Kernel]) -> str:
    names = ", ".join(kernel.id for kernel in kernels[:_NAMED])
    return names + (
        f" and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else ""
    )


def _source(report: Report, kernel: Kernel) -> str | None:
    for group in report.groups:
        if group.id in kernel.groups:
            return group.first_line
    return None


RULES = (
    slow_kernels,
    launch_bound,
    spills,
    low_occupancy,
    segmented,
    many_small_groups,
    recompiled,
    layout_copies,
)
