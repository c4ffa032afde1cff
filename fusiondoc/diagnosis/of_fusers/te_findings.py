"""FD11x and FD24x: the plans of Transformer Engine's operation fuser, and the
operators that stayed basic.

The conditions of each reason are in ``te_rules.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.captures.frontend_records import TeRecords
from fusiondoc.diagnosis.of_fusers.te_modules import instead_of, named
from fusiondoc.diagnosis.of_fusers.te_rules import Planner, version_of
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.fusers.te.rules import LATEST
from fusiondoc.model import dataclass
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import folded
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.te import TeSplit

_TRAP = "ForwardLinearBiasActivation"
_MOST_DISAGREEMENTS = 3


def no_operators(report: Report, context: Context) -> Iterable[Finding]:
    """FD111: no operator of te.ops was called."""
    if report.te is not None and not report.te.fusers and not context.cut_short:
        yield finding(
            "FD111",
            "The program called no operator of te.ops, so Transformer Engine had nothing to plan",
            remedy="Build the block as a te.ops.Sequential and call it, or leave it as it is: te.Linear, "
            "te.LayerNormMLP and te.TransformerLayer have their fusions built in, which no plan shows.",
        )


def only_a_plan(report: Report, context: Context) -> Iterable[Finding]:
    """FD112: the operators were planned but not run, as the tensors are on the
    CPU."""
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
    """FD113: modules that are no operators of te.ops and split a
    te.ops.Sequential."""
    found: dict[tuple[str, str | None], list[TeSplit]] = {}
    for one in report.te.splits if report.te is not None else ():
        found.setdefault((one.module, one.of), []).append(one)
    version = version_of(report.te.version) if report.te is not None else None
    for several in found.values():
        first = several[0]
        places = folded(tuple(one.where for one in several))
        yield finding(
            "FD113",
            f"{named(first)} ({places}) is no operator of te.ops and splits its te.ops.Sequential: nothing is"
            " fused across it",
            source=first.source,
            remedy=f"{instead_of(first, version)}.",
        )


_ACTIVATIONS = ("GELU", "ReLU", "SiLU", "QGELU", "SReLU")


def bias_without_activation(report: Report, context: Context) -> Iterable[Finding]:
    """FD114: the fused operator's name includes an activation that it never has."""
    if report.te is None or not any(group.name == _TRAP for group in report.groups):
        return
    follows = []
    for fuser in report.te.fusers:
        for step in fuser.plans[0].forward:
            if step.op == _TRAP:
                after = max(step.operators) + 1
            else:
                after = len(fuser.operators)
            if (
                after < len(fuser.operators)
                and fuser.operators[after].op in _ACTIVATIONS
            ):
                follows.append(fuser.operators[after].op)
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
            "Unfused operators are listed for the first recipe of the run;",
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
            "FD116",
            f"{len(found) - _MOST_DISAGREEMENTS} more plans differ from the table of rules",
        )


@dataclass(frozen=True)
class Disagreement:
    """A difference between the table of rules and the plan of Transformer
    Engine."""

    layer: str | None
    phase: str
    recipe: str | None
    planned: str
    by_table: str


def disagreements(records: TeRecords) -> tuple[Disagreement, ...]:
    """Return the plans that differ from those by the rules of their version."""
    version = version_of(records.package.version)
    if version is None:
        return ()
    pipelines = {one.fuser: one for one in records.pipelines}
    layers = {}
    for sequence in records.sequences:
        for part in sequence.parts:
            layers[part.fuser] = sequence.path
    found: dict[Disagreement, None] = {}
    for plan in records.plans:
        if plan.fuser in pipelines:
            operators = pipelines[plan.fuser].operators
        else:
            operators = ()
        for phase, steps in (
            ("forward", plan.forward),
            ("backward", plan.backward),
        ):
            made = []
            for one in steps:
                if one.fused and not one.own:
                    made.append((one.kind, one.operators))
            made = [
                one for one in made if "GroupedMLP" not in one[0]
            ]  # conditions of GroupedMLP are not recorded
            table = Planner(min(version, LATEST), phase, operators, plan).planned
            if made != table:
                recipe = plan.recipe.kind if plan.recipe is not None else None
                layer = layers.get(plan.fuser)
                found[
                    Disagreement(
                        layer, phase, recipe, _listed(made), _listed(table)
                    )
                ] = None
    return tuple(found)


def _listed(planned: Sequence[tuple[str, Sequence[int]]]) -> str:
    return (
        ", ".join(
            f"{kind}({', '.join(map(str, indexes))})" for kind, indexes in planned
        )
        or "nothing"
    )


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
    layers = {}
    for one in context.te.sequences:
        for part in one.parts:
            layers[part.fuser] = one.path
    found: dict[tuple[str, str], list[str]] = {}
    for plan in context.te.plans:
        for then, now in zip(plan.operators, plan.now or ()):
            if then.dtype is not None and now is not None and then.dtype != now:
                found.setdefault((then.dtype, now), []).append(
                    layers.get(plan.fuser, "")
                )
    for (before, after), paths in found.items():
        where = ""
        if any(paths):
            where = f" (layer {folded(tuple(dict.fromkeys(paths)))})"
        yield finding(
            "FD118",
            f"Weights were {before} when Transformer Engine planned{where} and are {after} now; the plan is"
            " the old one",
            remedy=f"Convert the model before its first call, model.to(torch.{after}), or make the"
            " te.ops.Sequential anew after it: the rules do not run again.",
        )


def registered(report: Report, context: Context) -> Iterable[Finding]:
    """FD117: fusions that the program registered, and those of the package that it
    removed."""
    gone = tuple(
        dict.fromkeys(name for plan in context.te.plans for name in plan.taken_out)
    )
    if report.te is not None and gone:
        yield finding(
            "FD117",
            f"The program took fusions of Transformer Engine out: {', '.join(gone)}",
            remedy=nothing("Nothing, if that was intended: no plan has them then."),
        )
    if report.te is None or not report.te.own_fusions:
        return
    made = []
    for group in report.groups:
        if _own(report, group.id):
            made.append(group.name)
    if made:
        effect = f"; they made {', '.join(dict.fromkeys(made))}"
    else:
        effect = "; none of them made an operator"
    remedy = nothing(
        "Nothing.",
        "They run in the order of registration; prepend=True runs one before those of Transformer Engine.",
    )
    if (
        not made
        and context.te.plans
        and not any(plan.own_asked for plan in context.te.plans)
    ):
        effect += ": every plan was made before they were registered, and is kept"
        remedy = Remedy(
            "Register them before the first call, or make the te.ops.Sequential anew after it."
        )
    yield finding(
        "FD117",
        f"The program registered fusions of its own: {', '.join(report.te.own_fusions)}{effect}",
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
        times = f" ({row.count:,} times)" if row.count > 1 else ""
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
