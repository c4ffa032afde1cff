"""What to change in a program of Transformer Engine, so that its operation fuser takes more: for the plan.

What each reason asks for is in ``te_rules.py``. A gain is the operators that a rule would take then; their
time is not known before.
"""

from __future__ import annotations

import ast
from typing import Iterable, Sequence

from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.steps_of_findings import can_run_again, compare_logs, run_again
from fusiondoc.diagnosis.te_rules import NO_RECIPE, version_of
from fusiondoc.model.beside_torchscript import TeSplit
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.module_tree import folded
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source

_RECIPE = ("--recipe", "delayed")

_OPS = {
    "Dropout": (2, 7),
    "GELU": (1, 10),
    "GLU": (2, 13),
    "Identity": (1, 10),
    "LayerNorm": (1, 10),
    "Linear": (1, 10),
    "ReLU": (1, 10),
    "RMSNorm": (1, 10),
    "SiLU": (2, 8),
}
"""Modules of torch.nn and transformer_engine.pytorch with a counterpart in te.ops, and from which version on
(transformer_engine/pytorch/ops/basic, 1.13 to 2.20)."""

_OF_TE = "transformer_engine.pytorch"


def named(split: TeSplit) -> str:
    """The module as a program names it: ``torch.nn.Dropout``, ``te.Linear``, ``Block``."""
    home = split.of or ""
    if home.startswith(f"{_OF_TE}.ops"):
        return f"te.ops.{split.module}"
    if home.startswith(_OF_TE):
        return f"te.{split.module}"
    torch = home.startswith("torch.nn") or (not home and split.module in _OPS)  # older captures tell none
    return f"torch.nn.{split.module}" if torch else split.module


def counterpart(split: TeSplit, version: tuple[int, int] | None) -> str | None:
    """``te.ops.Dropout``, where this version has it; None where it has none."""
    home = split.of or "torch.nn"
    known = home.startswith(("torch.nn", _OF_TE)) and not home.startswith(f"{_OF_TE}.ops")
    since = _OPS.get(split.module) if known else None
    return f"te.ops.{split.module}" if since is not None and (version is None or version >= since) else None


def instead_of(split: TeSplit, version: tuple[int, int] | None) -> str:
    """What to do about it, as a sentence without its end."""
    other = counterpart(split, version)
    if other is not None:
        return f"Use {other} instead of {named(split)}"
    if named(split) in ("te.ops.Sequential", "torch.nn.Sequential"):
        return f"Put the operators of the inner {named(split)} into the outer: te.ops.Sequential(*inner, ...)"
    return f"Put {named(split)} before or behind all operators of the sequence, if the model allows it"


def te_changes(report: Report, context: Context) -> list[PlannedChange]:
    """The changes, those for most operators first."""
    found = [*_of_rows(report, context), *_of_splits(report, context)]
    return sorted(found, key=lambda one: -one.operators)


def _with(report: Report, row: Unfused, keyword: str, value: str) -> tuple[str, str] | None:
    """The line that makes the operator, and with another argument; None where it is no call on one line."""
    place = Source.parse(row.user_source)
    text = report.texts.source(place.file) if place is not None and report.texts is not None else None
    lines = (text or "").split("\n")
    if place is None or place.line is None or not 0 < place.line <= len(lines):
        return None
    before = lines[place.line - 1].strip().rstrip(",")
    try:
        calls = [one for one in ast.walk(ast.parse(before)) if isinstance(one, ast.Call)]
    except (SyntaxError, ValueError):
        return None
    name = row.op.rpartition(".")[2]
    names = (name, "Linear") if keyword == "dtype" else (name,)
    calls = [one for one in calls if getattr(one.func, "attr", getattr(one.func, "id", None)) in names]
    call = calls[0] if len(calls) == 1 else None
    if call is None or call.end_col_offset is None or not before.isascii():
        return None
    for one in call.keywords:
        if one.arg == keyword and one.value.end_col_offset is not None:
            return before, before[: one.value.col_offset] + value + before[one.value.end_col_offset :]
    inside = before[: call.end_col_offset - 1].rstrip()
    comma = "" if inside.endswith(("(", ",")) else ", "
    return before, f"{inside}{comma}{keyword}={value}{before[call.end_col_offset - 1 :]}"


def _ran_under_a_recipe(report: Report) -> bool:
    fusers = report.te.fusers if report.te is not None else ()
    return any(plan.recipe is not None for fuser in fusers for plan in fuser.plans)


def _is_program(context: Context) -> bool:
    """It enters recipes itself: --recipe is for models."""
    return context.request is not None and bool(context.request.options.script)


def _autocast(report: Report) -> str:
    """``autocast`` is in transformer_engine/pytorch/__init__.py of 2.10, not in that of 2.8."""
    version = version_of(report.te.version) if report.te is not None else None
    if version is not None and version < (2, 10):
        return "fp8_autocast(enabled=True, fp8_recipe=recipe)"
    return "autocast(enabled=True, recipe=recipe)"


def _of_rows(report: Report, context: Context) -> Iterable[PlannedChange]:
    of_code: dict[tuple[str, str], list[Unfused]] = {}
    for row in report.unfused:
        flag = row.reason.text if row.reason.code == "FD242" else ""
        of_code.setdefault((row.reason.code, flag), []).append(row)
    for (code, _), rows in of_code.items():
        first = rows[0]
        more: tuple[str, ...] = ()
        if code == "FD241":
            kind, change = ChangeKind.DTYPE, "Make the operators in bfloat16"
            lines = _with(report, first, "dtype", "torch.bfloat16") or (
                "te.ops.Linear(n, m)",
                "te.ops.Linear(n, m, dtype=torch.bfloat16)",
            )
            if any(one.code == "FD118" for one in report.findings):  # they are, but too late
                kind, change = ChangeKind.RUNS, "Convert the model before its first call"
                lines = ("model(x); model.to(torch.bfloat16)", "model.to(torch.bfloat16); model(x)")
        elif code == "FD242":
            wanted = "False" if "in_place=False" in first.reason.text else "True"
            name = "MakeExtraOutput" if "extra output" in first.reason.text else "AddExtraInput"
            first = next((row for row in rows if row.op.endswith(name)), first)
            kind, change = ChangeKind.OUT_OF_PLACE, f"Make {name} with in_place={wanted}"
            lines = _with(report, first, "in_place", wanted) or (
                f"te.ops.{name}(in_place={wanted != 'True'})",
                f"te.ops.{name}(in_place={wanted})",
            )
        elif code == "FD244":
            rows = [row for row in rows if NO_RECIPE in row.reason.text]
            if not rows or _ran_under_a_recipe(report):
                continue  # what it does is in the report
            first = rows[0]
            kind, change = ChangeKind.KNOB, "Run it under a recipe, if it may be quantized"
            more = () if _is_program(context) else _RECIPE
            lines = ("model(x)", f"with te.{_autocast(report)}: model(x)")
        else:
            continue
        place = Source.parse(first.user_source)
        mine = [row for row in rows if row.op == first.op] if kind.in_source else []
        ops = tuple(dict.fromkeys(row.op for row in rows))
        number = sum(row.count for row in rows)
        layers = [layer for row in rows for layer in row.layers if layer]
        what = " and ".join(op.rpartition(".")[2] for op in ops[:2]) + (" and others" if len(ops) > 2 else "")
        yield PlannedChange(
            change,
            kind,
            place.at_line if place is not None and kind.in_source else None,
            *lines,
            f"{number} operator{'s' * (number > 1)}: {what}" + (f" in {folded(layers, 2)}" if layers else ""),
            None,
            None,
            _command(report, context, more),
            operators=number,
            ops=ops,
            codes=(code,),
            note=first.reason.text + _other_lines(mine, place),
        )


def _other_lines(rows: Sequence[Unfused], place: Source | None) -> str:
    """``; also for model.py:14, model.py:20 and 3 more lines``."""
    others = list(dict.fromkeys(row.user_source for row in rows if row.user_source is not None))
    others = [one for one in others if place is not None and one != place.at_line]
    more = f" and {len(others) - 2} more lines" if len(others) > 2 else ""
    return f"; also for {', '.join(others[:2])}{more}" if others else ""


def _of_splits(report: Report, context: Context) -> Iterable[PlannedChange]:
    modules: dict[tuple[str, str | None], list[TeSplit]] = {}
    for one in report.te.splits if report.te is not None else ():
        modules.setdefault((one.module, one.of), []).append(one)
    version = version_of(report.te.version) if report.te is not None else None
    for several in modules.values():
        first = several[0]
        where = f" ({folded(tuple(one.place for one in several), 2)})"
        other, place = counterpart(first, version), Source.parse(first.source)
        yield PlannedChange(
            instead_of(first, version),
            ChangeKind.RECIPE if other is not None else ChangeKind.MOVE,
            place.at_line if place is not None else None,
            f"{named(first)}(...)" if other is not None else None,
            f"{other}(...)" if other is not None else None,
            f"{named(first)}{where} splits its sequence: nothing is fused across it",
            None,
            None,
            _command(report, context),
            codes=("FD113",),
        )


def _command(report: Report, context: Context, more: tuple[str, ...] = ()) -> str:
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, more)
    return compare_logs(report)
