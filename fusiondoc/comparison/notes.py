"""Sentences for the end of a comparison: facts that two reports lack, so that they
could not be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fusiondoc.comparison.by_lines import of_two_compilers
from fusiondoc.comparison.differences import passes_differ, runs_of
from fusiondoc.comparison.unfused_changes import lacks_plans
from fusiondoc.model.report import Report


def notes(a: Report, b: Report) -> tuple[str, ...]:
    """Sentences that name the sides as A and B."""
    return (
        *_of_one_side("A", a),
        *_of_one_side("B", b),
        *_without_plans("A", a, "B", b),
        *_without_plans("B", b, "A", a),
        *_of_both(a, b),
    )


def _of_one_side(name: str, report: Report) -> Iterator[str]:
    if report.parse.truncated or any(
        finding.code == "FD902" for finding in report.findings
    ):
        yield f"{name} is cut off: missing groups may be in the part that was cut"
    if not report.groups:
        yield f"{name} has no fusion group"


def _without_plans(
    name: str, report: Report, other: str, against: Report
) -> Iterator[str]:
    if lacks_plans(report, against):
        yield (
            f"whether operators that only {other} shows outside its groups were fused in {name} is"
            f" unknown: {report.coverage.unknown}"
        )


def _of_both(a: Report, b: Report) -> Iterator[str]:
    timed = _sides(a, b, _has_times)
    if len(timed) == 1:
        yield f"only {timed[0]} has times, so speed is not compared"
    elif not timed:
        yield "neither side has times, so speed is not compared"
    if not of_two_compilers(a, b):
        yield from _of_kernels(a, b)
    else:
        yield "A and B are of two compilers, so kernels are not compared, and of findings only errors"
    stating = _sides(a, b, _states_reasons)
    if len(stating) == 1 and a.unfused and b.unfused:
        yield f"only {stating[0]} states reasons: a reason may differ because one log has fewer levels"


def _of_kernels(a: Report, b: Report) -> Iterator[str]:
    with_code = _sides(a, b, _has_code)
    if len(with_code) == 1 and a.kernels and b.kernels:
        yield f"only {with_code[0]} has code of kernels (dump cuda_kernel)"
    untied = _sides(a, b, _has_untied_kernels)
    if untied:
        yield f"kernels of {' and '.join(untied)} are assigned to no group: they were matched by their code"
    if passes_differ(a, b):
        yield f"A ran {runs_of(a)} passes and B {runs_of(b)}, so launches are not compared"


def _sides(a: Report, b: Report, holds: Callable[[Report], bool]) -> list[str]:
    """The names of the sides for which ``holds`` is true."""
    return [name for name, report in (("A", a), ("B", b)) if holds(report)]


def _has_times(report: Report) -> bool:
    return bool(report.speed) or any(kernel.ms for kernel in report.kernels)


def _has_code(report: Report) -> bool:
    return any(kernel.code for kernel in report.kernels)


def _has_untied_kernels(report: Report) -> bool:
    return bool(report.kernels) and not any(
        kernel.groups for kernel in report.kernels
    )


def _states_reasons(report: Report) -> bool:
    return any(row.reason.stated for row in report.unfused)
