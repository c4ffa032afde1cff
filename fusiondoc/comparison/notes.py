"""What a comparison cannot tell, because one side does not."""

from __future__ import annotations

from typing import Iterator

from fusiondoc.model.report import Report


def notes(a: Report, b: Report) -> tuple[str, ...]:
    """Sentences for the end of the report."""
    return tuple(_notes(a, b))


def _notes(a: Report, b: Report) -> Iterator[str]:
    sides = (("A", a), ("B", b))
    for name, report in sides:
        if report.parse.truncated or any(f.code == "FD902" for f in report.findings):
            yield f"{name} is cut off: what it lacks may be what was cut"
        if not report.groups:
            yield f"{name} has no fusion group"
    timed = [name for name, report in sides if any(k.ms for k in report.kernels) or report.speed]
    if len(timed) == 1:
        yield f"only {timed[0]} has times, so nothing is said about speed"
    elif not timed:
        yield "neither side has times, so nothing is said about speed"
    with_code = [name for name, report in sides if any(k.code for k in report.kernels)]
    if len(with_code) == 1 and a.kernels and b.kernels:
        yield f"only {with_code[0]} has code of kernels (dump cuda_kernel)"
    untied = [name for name, report in sides if report.kernels and not any(k.groups for k in report.kernels)]
    if untied:
        yield f"kernels of {' and '.join(untied)} are assigned to no group: they were matched by their code"
    stated = [name for name, report in sides if any(u.reason.stated for u in report.unfused)]
    if len(stated) == 1 and a.unfused and b.unfused:
        yield f"only {stated[0]} states reasons: a reason may differ because one log has fewer levels"
    if passes_differ(a, b):
        yield f"A ran {_runs(a)} passes and B {_runs(b)}, so launches are not compared"


def passes_differ(a: Report, b: Report) -> bool:
    """Whether both tell how often they ran the model, and not the same."""
    return None not in (_runs(a), _runs(b)) and _runs(a) != _runs(b)


def _runs(report: Report) -> int | None:
    options = report.target.get("options")
    runs = options.get("runs") if isinstance(options, dict) else None
    return runs if isinstance(runs, int) else None
