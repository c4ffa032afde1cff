"""What to change in a program of Transformer Engine, so that its operation fuser takes more: for the plan.

What each reason asks for is in ``te_rules.py``. A gain is the operators that a rule would take then; their
time is not known before.
"""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.change_commands import can_run_again, compare_logs, run_again
from fusiondoc.diagnosis.rules.rule import Context
from fusiondoc.diagnosis.te_rules import NO_RECIPE, version_of
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.module_tree import folded
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source

_RECIPE = ("--recipe", "delayed")

_OPS = frozenset(["Dropout", "GELU", "LayerNorm", "Linear", "ReLU", "RMSNorm", "SiLU"])
"""Modules of torch.nn with a counterpart in te.ops (transformer_engine/pytorch/ops/basic, 2.20)."""


def te_changes(report: Report, context: Context) -> list[PlannedChange]:
    """The changes, those for most operators first."""
    found = [*_of_rows(report, context), *_of_splits(report, context)]
    return sorted(found, key=lambda one: -one.operators)


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
    of_code: dict[str, list[Unfused]] = {}
    for row in report.unfused:
        of_code.setdefault(row.reason.code, []).append(row)
    for code, rows in of_code.items():
        first = rows[0]
        more: tuple[str, ...] = ()
        if code == "FD241":
            kind, change = ChangeKind.DTYPE, "Make the operators in bfloat16"
            lines = ("te.ops.Linear(n, m)", "te.ops.Linear(n, m, dtype=torch.bfloat16)")
        elif code == "FD242":
            kind, change = ChangeKind.OUT_OF_PLACE, "Change the flag in_place"
            name = first.op.rpartition(".")[2]
            lines = (f"te.ops.{name}(in_place=False)", f"te.ops.{name}(in_place=True)")
            if "in_place=False" in first.reason.text:
                lines = (lines[1], lines[0])
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
        ops = tuple(dict.fromkeys(row.op for row in rows))
        number = sum(row.count for row in rows)
        layers = [layer for row in rows for layer in row.layers if layer]
        what = " and ".join(op.rpartition(".")[2] for op in ops[:2]) + (" and others" if len(ops) > 2 else "")
        yield PlannedChange(
            change,
            kind,
            place.at_line if place is not None and kind is not ChangeKind.KNOB else None,
            *lines,
            f"{number} operator{'s' * (number > 1)}: {what}" + (f" in {folded(layers, 2)}" if layers else ""),
            None,
            None,
            _command(report, context, more),
            operators=number,
            ops=ops,
            codes=(code,),
            note=first.reason.text,
        )


def _of_splits(report: Report, context: Context) -> Iterable[PlannedChange]:
    modules: dict[str, list[str]] = {}
    for one in report.te.splits if report.te is not None else ():
        modules.setdefault(one.module, []).append(one.path or one.layer)
    for module, paths in modules.items():
        known = module in _OPS
        where = f" ({folded(tuple(paths), 2)})" if any(paths) else ""
        yield PlannedChange(
            f"Use te.ops.{module} instead of torch.nn.{module}" if known
            else f"Put {module} at the end of the sequence",
            ChangeKind.RECIPE if known else ChangeKind.MOVE,
            None,
            f"torch.nn.{module}(...)" if known else None,
            f"te.ops.{module}(...)" if known else None,
            f"{module}{where} splits the sequence: nothing is fused across it",
            None,
            None,
            _command(report, context),
            codes=("FD113",),
        )  # fmt: skip


def _command(report: Report, context: Context, more: tuple[str, ...] = ()) -> str:
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, more)
    return compare_logs(report)
