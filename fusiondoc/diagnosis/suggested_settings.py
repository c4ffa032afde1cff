"""The settings of a run that findings suggest: ``diagnose --try`` runs them, and
``fix`` writes torch's own settings into the target's file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.changes_of_operators import NO_RULE
from fusiondoc.fuser_knobs import catalogue, exists_in, parse_version
from fusiondoc.fusers import FUSERS, facts_of, operators_of_knobs, taken_by
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.codes import CODES, DYNAMIC
from fusiondoc.model.finding_code import MORE_RUNS, OTHER_FUSER, TRACE
from fusiondoc.model.reasons.lacking_constants import lacks_constant
from fusiondoc.model.remedies import Setting
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Options
from fusiondoc.operators import CONTROL_FLOW, is_in_place

MOST_TRIES = 8


FREEZE, IN_PLACE_OFF = "--freeze", "inplace=False on all modules"

_FOLDED = CONTROL_FLOW.union(
    ["aten::batch_norm", "aten::dropout", "aten::feature_dropout"]
)
"""Operators that freezing removes or makes constant
(torch/csrc/jit/passes/freeze_module.cpp, fold_conv_bn.cpp)."""


def suggested(
    report: Report, options: Options, kind: str, training: bool | None = None
) -> list[Change]:
    """Return the changes that the findings of a report suggest and this torch can
    make, those of the worst finding first; then the further settings of its plan.

    Args:
        options: of the run (``RunRequest.options()``); a setting that was already
            requested is no change.
        kind: of the target: "file", "module" or "archive"; an archive cannot be
            traced.
        training: True if the target is a module in training mode; None if it is no
            module, or this is not known.
    """
    rows = report.rows_that_may_have_run
    changes = [
        *_of_the_module(rows, options, training),
        *_of_findings(report, rows, options, kind),
    ]
    for planned in report.plan:
        change = _of_plan(planned, report, options, kind)
        if change is not None and all(
            one.setting != change.setting for one in changes
        ):
            changes.append(change)
    return changes[:MOST_TRIES]


def _of_findings(
    report: Report, rows: Sequence[Unfused], options: Options, kind: str
) -> Iterator[Change]:
    """Yield a change for each setting that the codes of the findings and of these
    rows' reasons name (``Code.tries``)."""
    found = list(
        dict.fromkeys(
            [*(f.code for f in report.findings), *(row.reason.code for row in rows)]
        )
    )
    wanted: dict[str, list[str]] = {}
    for code in found:
        for name in CODES[code].tries:
            wanted.setdefault(name, []).append(code)
    for row in rows:
        # Whatever reason the log states: in a trace a condition on shapes or flags
        # is gone.
        if row.op in CONTROL_FLOW and row.reason.code not in wanted.setdefault(
            TRACE, []
        ):
            wanted[TRACE].append(row.reason.code)
    for name, codes in wanted.items():
        change = _change(name, tuple(codes), report, options, kind)
        if change is not None:
            yield change


def _of_plan(
    planned: PlannedChange, report: Report, options: Options, kind: str
) -> Change | None:
    """Return the knobs or tracing that a plan suggests for operators outside
    groups; None for another change, and if this run already has them."""
    if planned.kind is ChangeKind.TRACE:
        return _change(TRACE, planned.codes, report, options, kind)
    knobs = planned.setting.knobs
    if not planned.ops or not knobs or knobs.items() <= options.knobs.items():
        return None
    if not all(_works(name, report) for name in knobs):
        return None
    title = ", ".join(f"{name}={value}" for name, value in knobs.items())
    return Change(
        planned.kind, title, setting=Setting(knobs=knobs), codes=planned.codes
    )


def _of_the_module(
    rows: Sequence[Unfused], options: Options, training: bool | None
) -> Iterator[Change]:
    """Yield the changes of the module: ``inplace=False``, and frozen, if an
    operator shows that they can matter."""
    if training is None or options.script:
        return
    codes = tuple(
        dict.fromkeys(row.reason.code for row in rows if of_module_in_place(row))
    )
    if codes and not options.in_place_off:
        yield _flag(ChangeKind.NOT_INPLACE, IN_PLACE_OFF, "--in-place-off", codes)
    codes = tuple(dict.fromkeys(row.reason.code for row in rows if _is_folded(row)))
    if (
        codes
        and not (training and not options.eval)
        and not options.backward
        and not options.freeze
    ):
        yield _flag(ChangeKind.FREEZE, FREEZE, FREEZE, codes)


def of_module_in_place(row: Unfused) -> bool:
    """True if the operator is a function of torch.nn that works in place because of
    a module's ``inplace``."""
    counts = row.reason.code == "FD226"
    return (
        is_in_place(row.op)
        and not counts
        and row.source is not None
        and "torch/nn/functional" in row.source.replace("\\", "/")
    )


def _is_folded(row: Unfused) -> bool:
    return row.op in _FOLDED or lacks_constant(row.reason.detail)


def _flag(
    kind: ChangeKind, title: str, name: str, codes: tuple[str, ...] = ()
) -> Change:
    """Return the change that an option without a value makes."""
    return Change(kind, title, setting=Setting(flags=(name,)), codes=codes)


def another_fuser(fuser: str, codes: tuple[str, ...]) -> Change:
    """Return the change to another fuser."""
    setting = Setting(fuser=fuser)
    return Change(ChangeKind.FUSER, setting.text, setting=setting, codes=codes)


def _change(
    name: str, codes: tuple[str, ...], report: Report, options: Options, kind: str
) -> Change | None:
    """Return the change of that name (``Code.tries``); None if this run has it
    already, or if it has no effect here."""
    script = bool(options.script)
    if name == MORE_RUNS:
        more = Setting(runs=2 * (options.runs or 1))
        if script:
            return None
        return Change(ChangeKind.RUNS, more.text, setting=more, codes=codes)
    if name == TRACE:
        already = script or options.trace or kind == "archive"
        if already:
            return None
        return _flag(ChangeKind.TRACE, TRACE, TRACE, codes)
    if name == DYNAMIC:
        if options.dynamic:
            return None
        return _flag(ChangeKind.DYNAMIC_SHAPES, DYNAMIC, DYNAMIC, codes)
    if name == OTHER_FUSER:
        fuser = other_fuser(report, options, codes)
        if fuser is None:
            return None
        return another_fuser(fuser, codes)
    return _of_knob(name, codes, report, options)


def _of_knob(
    name: str, codes: tuple[str, ...], report: Report, options: Options
) -> Change | None:
    knob, _, value = name.partition("=")
    if not _works(knob, report) or value in (
        options.knobs.get(knob),
        _default(knob, options),
    ):
        return None
    about = operators_of_knobs().get(knob)
    ops = set()
    for row in report.rows_that_may_have_run:
        if row.reason.code in codes:
            ops.add(row.op)
    if about is not None and ops and not ops & about:
        return None
    return Change(
        ChangeKind.KNOB, name, setting=Setting(knobs={knob: value}), codes=codes
    )


def _works(name: str, report: Report) -> bool:
    """True if the knob has an effect on this torch and for the fuser at work."""
    knob = catalogue.knob(name)
    torch = report.environment.get("torch")
    if (
        knob is None
        or torch is None
        or not exists_in(knob.live, parse_version(torch))
    ):
        return False
    if knob.device is not None and (knob.device == "cuda") != _is_on_gpu(report):
        return False
    return knob.fuser in ("executor", report.fuser.effective)


def _default(name: str, options: Options) -> str | None:
    """Return the knob's value if the run does not set it; None if it does."""
    knob = catalogue.knob(name)
    if knob is not None and name not in options.knobs:
        return knob.default
    return None


def other_fuser(
    report: Report, options: Options, codes: tuple[str, ...]
) -> str | None:
    """Return a fuser to try instead of this one, which can run here and, if all
    codes are about single operators, takes one of them; None if there is none."""
    effective = report.fuser.effective or options.fuser
    torch = report.environment.get("torch")
    ops = set()
    for row in report.unfused:
        if row.reason.code in codes:
            ops.add(row.op)
    alone = bool(ops) and all(code in NO_RULE for code in codes)
    for fuser in facts_of(effective).instead:
        if _can_run(fuser, report, options) and (
            not alone or any(taken_by(op, fuser, torch) for op in ops)
        ):
            return fuser
    return None


def _can_run(fuser: str, report: Report, options: Options) -> bool:
    """True if the environment and the options allow the fuser, as far as known
    without running it."""
    facts, environment = FUSERS[fuser], report.environment
    if environment.get("torch"):
        version = parse_version(environment["torch"])
    else:
        version = 0, 0
    if facts.limits.since is not None and version < facts.limits.since:
        return False
    if facts.limits.until is not None and version > facts.limits.until:
        return False
    if options.backward and not facts.limits.in_training:
        return False
    if "cpu" not in facts.limits.devices:
        return bool(environment.get("cuda")) and bool(environment.get("gpu"))
    return "cuda" in facts.limits.devices or not _is_on_gpu(report)


def _is_on_gpu(report: Report) -> bool:
    for group in report.groups:
        for text in group.inputs:
            if "cuda" in text:
                return True
    return False
