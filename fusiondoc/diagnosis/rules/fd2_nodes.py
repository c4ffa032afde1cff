"""FD2xx: an operator that is not fused, with the reason that the log states or that was worked out."""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

from fusiondoc.diagnosis.advice import advice_on, between_libraries, of_a_library, of_torch
from fusiondoc.diagnosis.operators import is_fusible, taken_by
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.run_facts import RunFacts, run_facts
from fusiondoc.model.codes import CODES, Loss
from fusiondoc.model.module_tree import folded
from fusiondoc.model.report import Finding, Report, Unfused
from fusiondoc.model.runs import Time


def not_fused(report: Report, context: Context) -> Iterable[Finding]:
    """One finding for each unfused row that ran; what keeps nothing out, and is not taken itself, is only a
    note."""
    run = run_facts(report, context)
    for row in report.unfused:
        if row.ran is False:
            continue
        told = CODES[row.reason.code].advice is not None and row.op != "prim::GetAttr"
        if told and not any(case(row, run) for case, _ in _UNCHANGEABLE):
            yield _finding(row, run)


_UNCHANGEABLE: tuple[tuple[Callable[[Unfused, RunFacts], bool], str], ...] = (
    (of_torch, "torch's own gradient formulas"),
    (of_a_library, "kernels of a library, which are no part of groups"),
    (between_libraries, "between kernels of a library, with nothing else to fuse with"),
)


def not_to_be_changed(report: Report, context: Context) -> Iterable[Finding]:
    """FD236: one note for each cause that no change of a program takes away."""
    run = run_facts(report, context)
    notes: dict[str, list[Unfused]] = {}
    for row in report.unfused:
        why = next((text for case, text in _UNCHANGEABLE if case(row, run)), None)
        if why is not None and row.ran is not False:
            notes.setdefault(why, []).append(row)
    for why, rows in notes.items():
        yield finding(
            "FD236",
            f"{_listed(rows)}: {why}",
            source=rows[0].user_source,
            evidence=rows[0].evidence[:3],
            advice=CODES["FD236"].advice,
            ops=sorted({row.op for row in rows}),
            time=_together(rows),
        )


def _finding(row: Unfused, run: RunFacts) -> Finding:
    code = CODES[row.reason.code]
    advice = advice_on(row, run)
    changeable = row.keeps_out and advice.sure
    where = f", layer {folded(row.layers)}" if row.layers else ""
    if row.keeps_out:
        places = "1 place" if row.count == 1 else f"{row.count} places"
        kept = "1 operator" if row.keeps_out == 1 else f"{row.keeps_out} operators"
        message = f"{row.op} keeps {kept} out of groups ({places}{where}): {row.reason.text}"
    else:
        times = f" ({row.count} times)" if row.count > 1 else ""
        phase = f" in {row.phase}" if row.phase else ""
        where = f" (layer {folded(row.layers)})" if row.layers else ""
        message = f"{row.op}{times} is not fused{phase}{where}: {row.reason.text}"
    return finding(
        code.code,
        message,
        source=row.user_source,
        evidence=row.evidence,
        advice=advice.text,
        severity="warning" if changeable or (row.reason.stated and _taken(row, run)) else "note",
        saves_bytes=row.bytes_moved if code.loss is Loss.RESULT else None,
        keeps_out=row.keeps_out,
        recipe=advice.recipe.words if advice.recipe is not None else None,
        ops=(row.op,),
        time=row.time,
    )


def _together(rows: Sequence[Unfused]) -> Time | None:
    """What the rows take of a step; None where the profile does not tell of any."""
    times = [row.time for row in rows if row.time is not None]
    saved = [one.could_save_ms for one in times if one.could_save_ms is not None]
    if not times:
        return None
    ms, share = sum(one.ms for one in times), sum(one.share for one in times)
    return Time(round(ms, 6), round(share, 6), round(sum(saved), 6) if saved else None)


def _taken(row: Unfused, run: RunFacts) -> bool:
    """Whether the fuser takes the operator, for other arguments or in another place."""
    return is_fusible(row.op) if run.fuser is None else taken_by(row.op, run.fuser, run.torch)


def _listed(rows: Sequence[Unfused]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.op] = counts.get(row.op, 0) + row.count
    most = sorted(counts.items(), key=lambda item: -item[1])
    names = [op + (f" x{number}" if number > 1 else "") for op, number in most[:4]]
    return ", ".join(names) + (f" and {len(most) - 4} more" if len(most) > 4 else "")


RULES = (not_fused, not_to_be_changed)
