"""FD501 to FD503: differences that ``--verify`` found between fused and eager
passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.groups_in_words import describe, first_user_source
from fusiondoc.fusers import compiles_python, how_to_leave_out
from fusiondoc.model import count
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Group, Report
from fusiondoc.model.runs import Verification, furthest_off

_NAMED = 3


def numbers_differ(report: Report, context: Context) -> Iterable[Finding]:
    """FD501: outputs and gradients that differ from those of the eager run."""
    for phase, kind in (("forward", "output"), ("backward", "gradient")):
        rows = [row for row in report.verification if row.phase == phase]
        wrong = [row for row in rows if not row.same]
        if wrong:
            yield _of_wrong_numbers(report, phase, kind, rows, wrong)


def _of_wrong_numbers(
    report: Report,
    phase: str,
    kind: str,
    rows: Sequence[Verification],
    wrong: Sequence[Verification],
) -> Finding:
    """Return FD501 for one phase.

    Args:
        kind: noun for the compared tensors.
        rows: all comparisons of the phase; ``wrong`` are those that failed.
    """
    names = list(dict.fromkeys(row.what for row in wrong))
    total = len({row.what for row in rows})
    groups = [group for group in report.groups if group.phase in (phase, None)]
    before = _before_fusion(report, wrong, phase)
    only = groups[0] if len(groups) == 1 and not before else None
    worst = []
    for name in names[:_NAMED]:
        worst.append(_worst([row for row in wrong if row.what == name]))
    if len(names) > _NAMED:
        worst.append(f"and {len(names) - _NAMED} more")
    differ = "differs" if len(names) == 1 else "differ"
    return finding(
        "FD501",
        f"{len(names):,} of {count(total, kind)} {differ} from eager: {'; '.join(worst)},"
        f" {_passes(wrong, rows)}",
        source=first_user_source(only),
        severity="warning"
        if all(row.by == "statistics" for row in wrong)
        else None,
        remedy=_OF_COMPILER
        if compiles_python(report.frontend)
        else _remedy(before, only, len(groups), report.fuser.effective),
    )


def _worst(rows: Sequence[Verification]) -> str:
    row = furthest_off(rows)
    text, remarks = row.what, []
    if row.max_abs is not None and row.by == "value":
        text += f" by up to {row.max_abs:.3g}"
        if row.max_rel is not None and row.tolerance:
            remarks.append(
                f"{row.max_rel:.2g} of its size, {row.tolerance:g} is allowed"
            )
    remarks += [one for one in (row.detail, row.judgement) if one]
    return text + (f" ({'; '.join(remarks)})" if remarks else "")


def _passes(wrong: Sequence[Verification], rows: Sequence[Verification]) -> str:
    numbers = sorted({row.iteration for row in wrong})
    total = len({row.iteration for row in rows})
    if len(numbers) == total:
        if total > 1:
            return f"in all {total} passes"
        return "in the only pass"
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"in passes {numbers[0]} to {numbers[-1]} of {total}"
    return f"in pass{'es' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of {total}"


_OF_COMPILER = Remedy(
    "Compile less until it agrees: torch.compiler.disable on one function after the other,"
    ' or backend="aot_eager", which fuses nothing;',
    "TORCHDYNAMO_REPRO_AFTER=aot with TORCHDYNAMO_REPRO_LEVEL=4 looks for the smallest graph that differs.",
)
"""Source: torch/_dynamo/repro/after_aot.py, 2.6 to 2.13."""


def _before_fusion(
    report: Report, wrong: Sequence[Verification], phase: str
) -> bool:
    """True if a pass that ran unfused, to profile, already has wrong results."""
    profiling = set()
    for i in report.iterations:
        if i.phase == phase and i.stage == "profiling":
            profiling.add(i.index)
    return any(row.iteration in profiling for row in wrong)


def _remedy(
    before: bool, only: Group | None, groups: int, fuser: str | None
) -> str:
    if before:
        return (
            "A pass that only profiles, without any group, differs already, so it is not the fusion: compare"
            " with --fuser none, and look at what scripting, tracing (--trace) or freezing changes."
        )
    if only is not None:
        return (
            f"Group {describe(only)} makes it: take an operator out of it"
            f" ({how_to_leave_out(fuser)}), or use another fuser (--fuser), and report it to torch."
        )
    if groups:
        return (
            "Passes before the fusion agree: find the group by taking operators out of fusion"
            f" ({how_to_leave_out(fuser)}), or use another fuser (--fuser)."
        )
    return "Compare with --fuser none, to see whether the fuser is involved."


def layout_differs(report: Report, context: Context) -> Iterable[Finding]:
    """FD502: outputs with another dtype or other strides than in the eager run."""
    rows = [row for row in report.verification if row.phase == "forward"]
    other = [row for row in rows if not (row.dtype_same and row.strides_same)]
    if not other:
        return
    names = list(dict.fromkeys(row.what for row in other))
    shown = []
    for name in names[:_NAMED]:
        shown.append(next(row for row in other if row.what == name))
    yield finding(
        "FD502",
        "Not the dtype or strides of the eager run: "
        + "; ".join(f"{row.what} has {row.detail}" for row in shown)
        + (f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        + f", {_passes(other, rows)}",
        remedy="Code that calls view() or reads strides can break: use reshape(), or .contiguous() first.",
    )


def random_by_statistics(report: Report, context: Context) -> Iterable[Finding]:
    """FD503: results that depend on random numbers."""
    rows = [row for row in report.verification if row.by == "statistics"]
    if not rows:
        return
    names = list(dict.fromkeys(row.what for row in rows))
    ops = list(dict.fromkeys(op for row in rows for op in row.random))
    yield finding(
        "FD503",
        f"{', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''} depend{'s' * (len(names) == 1)}"
        f" on random numbers ({', '.join(ops) or 'of an operator that is not in the graph'}) that the fused"
        " and the eager run draw differently by design: compared by mean, standard deviation and share of"
        " zeros",
        remedy="To compare values, set dropout to 0 or put the model into eval mode.",
    )


NUMBERS = (numbers_differ, layout_differs, random_by_statistics)
