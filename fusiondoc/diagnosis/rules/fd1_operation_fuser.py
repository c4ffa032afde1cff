"""FD11x and FD24x: what Transformer Engine's operation fuser planned, which operators stayed basic, and what
to change in the program so that it takes more (for the plan).

What each reason asks for is in ``te_rules.py``. A gain is the operators that a rule would take then; their
time is not known before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from fusiondoc.captures.frontend_records import TeRecords
from fusiondoc.diagnosis.commands import command_of
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.te_rules import Planner, lacks_recipe, version_of
from fusiondoc.fusers.te.rules import LATEST
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import folded
from fusiondoc.model.other_frontends import TeSplit
from fusiondoc.model.reasons import Detail, UnmetConditions
from fusiondoc.model.remedies import AS_REQUESTED, Remedy, Setting, nothing
from fusiondoc.model.report import Finding, Report, Unfused
from fusiondoc.model.source import Source

_RECIPE = Setting(recipe="delayed")

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
    return f"Put {named(split)} before or after all operators of the sequence, if the model allows it"


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
    of_code: dict[tuple[str, Detail | None], list[Unfused]] = {}
    for row in report.unfused:
        flag = row.reason.detail if row.reason.code == "FD242" else None
        of_code.setdefault((row.reason.code, flag), []).append(row)
    for (code, _), rows in of_code.items():
        first = rows[0]
        setting = AS_REQUESTED
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
            flags = _in_place_flags(first)
            wanted = "False" if "output_in_place" in flags else "True"
            name = "AddExtraInput" if flags == {"sum_not_in_place"} else "MakeExtraOutput"
            first = next((row for row in rows if row.op.endswith(name)), first)
            kind, change = ChangeKind.OUT_OF_PLACE, f"Make {name} with in_place={wanted}"
            lines = _with(report, first, "in_place", wanted) or (
                f"te.ops.{name}(in_place={wanted != 'True'})",
                f"te.ops.{name}(in_place={wanted})",
            )
        elif code == "FD244":
            rows = [row for row in rows if lacks_recipe(row.reason.detail)]
            if not rows or _ran_under_a_recipe(report):
                continue  # what it does is in the report
            first = rows[0]
            kind, change = ChangeKind.KNOB, "Run it under a recipe, if it may be quantized"
            setting = AS_REQUESTED if _is_program(context) else _RECIPE
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
            f"{count(number, 'operator')}: {what}" + (f" in {folded(layers, 2)}" if layers else ""),
            None,
            None,
            command_of(report, context, setting),
            operators=number,
            ops=ops,
            codes=(code,),
            note=first.reason.text + _other_lines(mine, place),
        )


def _in_place_flags(row: Unfused) -> set[str]:
    """The conditions on ``in_place`` that do not hold of an operator."""
    detail = row.reason.detail
    if not isinstance(detail, UnmetConditions):
        return set()
    return {one.condition for one in detail.conditions if one.condition in _IN_PLACE}


_IN_PLACE = ("sum_not_in_place", "output_not_in_place", "output_in_place")


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
            command_of(report, context),
            codes=("FD113",),
        )


_TRAP = "ForwardLinearBiasActivation"
_MOST_DISAGREEMENTS = 3


def no_operators(report: Report, context: Context) -> Iterable[Finding]:
    """FD111: nothing of te.ops was called."""
    if report.te is not None and not report.te.fusers and not context.cut_short:
        yield finding(
            "FD111",
            "The program called no operator of te.ops, so Transformer Engine had nothing to plan",
            remedy="Build the block as a te.ops.Sequential and call it, or leave it as it is: te.Linear, "
            "te.LayerNormMLP and te.TransformerLayer have their fusions built in, which no plan shows.",
        )


def only_a_plan(report: Report, context: Context) -> Iterable[Finding]:
    """FD112: planned, not run."""
    if report.te is not None and report.te.fusers and not report.te.ran:
        yield finding(
            "FD112",
            "A plan, not a run: the tensors are on the CPU, and Transformer Engine has no kernels there",
            remedy=Remedy(
                "Run it on a GPU to see kernels and times;",
                "the plan is the same for the same types, recipe and gradients.",
            ),
        )


def splits(report: Report, context: Context) -> Iterable[Finding]:
    """FD113: modules between operators."""
    found: dict[tuple[str, str | None], list[TeSplit]] = {}
    for one in report.te.splits if report.te is not None else ():
        found.setdefault((one.module, one.of), []).append(one)
    version = version_of(report.te.version) if report.te is not None else None
    for several in found.values():
        first = several[0]
        places = folded(tuple(one.place for one in several))
        yield finding(
            "FD113",
            f"{named(first)} ({places}) is no operator of te.ops and splits its te.ops.Sequential: nothing is"
            " fused across it",
            source=first.source,
            remedy=f"{instead_of(first, version)}.",
        )


def bias_without_activation(report: Report, context: Context) -> Iterable[Finding]:
    """FD114: the fused operator's name names an activation that it never has."""
    if report.te is None or not any(group.name == _TRAP for group in report.groups):
        return
    follows = [
        fuser.operators[after].op
        for fuser in report.te.fusers
        for step in fuser.plans[0].forward
        if step.op == _TRAP
        for after in [max(step.operators) + 1]
        if after < len(fuser.operators)
        and fuser.operators[after].op in ("GELU", "ReLU", "SiLU", "QGELU", "SReLU")
    ]
    if follows:
        names = ", ".join(dict.fromkeys(follows))
        yield finding(
            "FD114",
            f"{_TRAP} holds the linear operator and its bias, not the activation after it: {names} runs on"
            " its own",
            remedy=nothing(
                "Nothing in the program: Transformer Engine makes this operator without an activation in"
                " every version up to 2.20.",
                "te.LayerNormMLP has the activation fused.",
            ),
            ops=tuple(dict.fromkeys("te.ops." + one for one in follows)),
        )


def other_plans(report: Report, context: Context) -> Iterable[Finding]:
    """FD115: one pipeline has other plans under another recipe or in inference."""
    more = [group for group in report.groups if group.specialisation > 1]
    if report.te is None or not more:
        return
    modes: dict[str, None] = {}
    for fuser in report.te.fusers:
        for plan in fuser.plans[1:]:
            mine = {step.group for step in (*plan.forward, *plan.backward)}
            if any(group.id in mine for group in more):
                way = "training" if plan.training else "inference"
                modes[f"{way} with {plan.recipe or 'no recipe'}"] = None
    names = ", ".join(f"{group.id} {group.name}" for group in more[:4])
    yield finding(
        "FD115",
        f"Plans differ on the same objects: {names} {'is' if len(more) == 1 else 'are'} there only in "
        f"{'; '.join(modes)}",
        remedy=Remedy(
            "What is not fused is told for the first recipe of the run;",
            "name the one that you train with: --recipe NAME.",
        ),
    )


def disagree(report: Report, context: Context) -> Iterable[Finding]:
    """FD116: the plan is not the one that the table of rules makes."""
    if report.te is None:
        return
    found = disagreements(context.te)
    for one in found[:_MOST_DISAGREEMENTS]:
        where = f" of {one.layer}" if one.layer else ""
        yield finding(
            "FD116",
            f"Transformer Engine {report.te.version} planned {one.planned} in the {one.phase} pass{where}"
            f" (recipe {one.recipe or 'none'}); by fusiondoc's table it is {one.by_table}",
            remedy=Remedy(
                "The plan is what counts;",
                "reasons for operators that stayed basic may be wrong here. Pack the capture for a report:"
                " fusiondoc bundle.",
            ),
        )
    if len(found) > _MOST_DISAGREEMENTS:
        yield finding(
            "FD116", f"{len(found) - _MOST_DISAGREEMENTS} more plans differ from the table of rules"
        )


@dataclass(frozen=True)
class Disagreement:
    """Where the table of rules and the plan of Transformer Engine differ."""

    layer: str | None
    phase: str
    recipe: str | None
    planned: str
    by_table: str


def disagreements(told: TeRecords) -> tuple[Disagreement, ...]:
    """Every plan against the rules of its version."""
    version = version_of(told.package.version)
    if version is None:
        return ()
    pipelines = {one.fuser: one for one in told.pipelines}
    layers = {part.fuser: one.path for one in told.sequences for part in one.parts}
    found: dict[Disagreement, None] = {}
    for plan in told.plans:
        operators = pipelines[plan.fuser].operators if plan.fuser in pipelines else ()
        for phase, steps in (("forward", plan.forward), ("backward", plan.backward)):
            made = [(one.kind, one.operators) for one in steps if one.fused and not one.own]
            made = [one for one in made if "GroupedMLP" not in one[0]]  # its conditions are not recorded
            table = Planner(min(version, LATEST), phase, operators, plan).planned
            if made != table:
                recipe = plan.recipe.kind if plan.recipe is not None else None
                layer = layers.get(plan.fuser)
                found[Disagreement(layer, phase, recipe, _listed(made), _listed(table))] = None
    return tuple(found)


def _listed(planned: Sequence[tuple[str, Sequence[int]]]) -> str:
    return ", ".join(f"{kind}({', '.join(map(str, indexes))})" for kind, indexes in planned) or "nothing"


def newer_version(report: Report, context: Context) -> Iterable[Finding]:
    """FD116, as a note: the version is not in the table."""
    version = version_of(report.te.version) if report.te is not None else None
    if version is not None and version > LATEST and report.te is not None:
        known = ".".join(map(str, LATEST))
        yield finding(
            "FD116",
            f"Transformer Engine {report.te.version} is newer than the table of rules, which ends with"
            f" {known}: the plan is its own, reasons are those of the table",
            severity="note",
            remedy="Upgrade fusiondoc.",
        )


def older_than_weights(report: Report, context: Context) -> Iterable[Finding]:
    """FD118: the types of weights changed after the plan was made."""
    if report.te is None:
        return
    layers = {part.fuser: one.path for one in context.te.sequences for part in one.parts}
    found: dict[tuple[str, str], list[str]] = {}
    for plan in context.te.plans:
        for then, now in zip(plan.operators, plan.now or ()):
            if then.dtype is not None and now is not None and then.dtype != now:
                found.setdefault((then.dtype, now), []).append(layers.get(plan.fuser, ""))
    for (before, after), paths in found.items():
        where = f" (layer {folded(tuple(dict.fromkeys(paths)))})" if any(paths) else ""
        yield finding(
            "FD118",
            f"Weights were {before} when Transformer Engine planned{where} and are {after} now; the plan is"
            " the old one",
            remedy=f"Convert the model before its first call, model.to(torch.{after}), or make the"
            " te.ops.Sequential anew after it: the rules are not asked again.",
        )


def registered(report: Report, context: Context) -> Iterable[Finding]:
    """FD117: fusions of the program's own, and those of the package that it took out."""
    gone = tuple(dict.fromkeys(name for plan in context.te.plans for name in plan.taken_out))
    if report.te is not None and gone:
        yield finding(
            "FD117",
            f"The program took fusions of Transformer Engine out: {', '.join(gone)}",
            remedy=nothing("Nothing, if that was intended: no plan has them then."),
        )
    if report.te is None or not report.te.own_fusions:
        return
    made = [group.name for group in report.groups if _own(report, group.id)]
    said = f"; they made {', '.join(dict.fromkeys(made))}" if made else "; none of them made an operator"
    remedy = nothing(
        "Nothing.",
        "They are asked in the order in which they were registered; prepend=True asks one before those of"
        " Transformer Engine.",
    )
    if not made and context.te.plans and not any(plan.own_asked for plan in context.te.plans):
        said += ": every plan was made before they were registered, and is kept"
        remedy = Remedy("Register them before the first call, or make the te.ops.Sequential anew after it.")
    yield finding(
        "FD117",
        f"The program registered fusions of its own: {', '.join(report.te.own_fusions)}{said}",
        remedy=remedy,
    )


def _own(report: Report, group: str) -> bool:
    return report.te is not None and any(
        step.group == group and step.own
        for fuser in report.te.fusers
        for plan in fuser.plans
        for step in (*plan.forward, *plan.backward)
    )


def stayed_basic(report: Report, context: Context) -> Iterable[Finding]:
    """FD24x: one finding for each row of basic operators that a rule names."""
    for row in report.unfused:
        code = CODES[row.reason.code]
        times = f" ({row.count} times)" if row.count > 1 else ""
        layers = f" (layer {folded(row.layers)})" if any(row.layers) else ""
        yield finding(
            code.code,
            f"{row.op}{times} stays basic in the {row.phase} pass{layers}: {row.reason.text}",
            source=row.user_source,
            remedy=code.remedy,
            ops=(row.op,),
            rows=(row,),
            time=row.time,
        )


RULES = (
    no_operators,
    only_a_plan,
    disagree,
    newer_version,
    splits,
    bias_without_activation,
    other_plans,
    older_than_weights,
    registered,
    stayed_basic,
)
