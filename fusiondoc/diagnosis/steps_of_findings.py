"""What the findings of a whole run say to do: what comes before any change of the program, and what is left
where none helps; and the command that proves a change: the run as it was asked for, with it (quoted for a
POSIX shell)."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Iterable, Sequence

from fusiondoc.captures.request import IN_PROCESS, KeptRequest
from fusiondoc.diagnosis.rules import Context
from fusiondoc.fuser_knobs.catalogue import knob_line
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.report import Finding, Report

_KINDS = {
    "FD101": ChangeKind.RUNS,
    "FD102": ChangeKind.LOG,
    "FD103": ChangeKind.RUNS,
    "FD104": ChangeKind.FUSER,
    "FD901": ChangeKind.LOG,
    "FD305": ChangeKind.STATIC_SHAPES,
    "FD407": ChangeKind.STATIC_SHAPES,
}


def blocking_steps(report: Report, context: Context) -> Iterable[PlannedChange]:
    """Errors, and what kept everything from being fused: the first of each code."""
    seen: set[str] = set()
    for finding in report.findings:
        early = finding.code in ("FD101", "FD102", "FD103", "FD104", "FD901") and not report.groups
        failed = finding.code == "FD905"
        if finding.code in seen or finding.keeps_out or (finding.advice is None and not failed):
            continue
        if finding.severity == "error" or (early and finding.severity == "warning"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)
    switched_off = [row for row in report.unfused if row.reason.code == "FD104"]
    if switched_off and "FD104" not in seen:
        yield PlannedChange(
            "Choose a fuser: every fuser is off",
            ChangeKind.FUSER,
            None,
            None,
            None,
            f"{sum(row.count for row in switched_off)} operators that a fuser takes",
            None,
            None,
            command_of(report, context, ("--fuser", "auto")),
            codes=("FD104",),
        )


def later_steps(report: Report, context: Context, changed: bool) -> Iterable[PlannedChange]:
    """Warnings on kernels and shapes; on operators and the run only where nothing can be brought into a
    group."""
    seen: set[str] = set()
    for finding in report.findings:
        family = finding.code[:3]
        if finding.severity != "warning" or finding.advice is None or finding.code in seen:
            continue
        if changed and family not in ("FD3", "FD4"):
            continue
        told = family in ("FD1", "FD3", "FD4", "FD5", "FD9") or (family == "FD2" and finding.keeps_out)
        if told and not finding.advice.startswith("Nothing"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)


def _of_finding(finding: Finding, report: Report, context: Context) -> PlannedChange:
    kind = _KINDS.get(finding.code, ChangeKind.REPAIR)
    more: tuple[str, ...] = ()
    advice = re.split(r"(?<=[.;]) ", finding.advice or "")[0].rstrip(".;")
    if kind is ChangeKind.RUNS and can_run_again(context) and context.request is not None:
        runs = 2 * (context.request.options.runs or 5)
        more, advice = ("--runs", str(max(runs, 5))), f"Run it more often: --runs {max(runs, 5)}"
    elif kind is ChangeKind.FUSER:
        more = ("--fuser", "auto")
    elif kind is ChangeKind.STATIC_SHAPES:
        more = ("--knob", "fusion_strategy=DYNAMIC:10")
    elif finding.code == "FD401" and "--fuser nnc" in advice:
        more = ("--fuser", "nnc", "--time")
    if finding.code == "FD905" and not advice:
        advice = "Mend the program first: it ended with an error"
    knob = re.search(r"--knob (\w+=[\w:]+)", finding.advice or "")
    if finding.code == "FD104" and knob is not None:
        more = ("--knob", knob[1])
    return PlannedChange(
        advice,
        kind,
        finding.source,
        None,
        None,
        _short(finding.message.replace(f", {finding.source})", ")")),
        finding.time.could_save_ms if finding.time is not None else None,
        finding.saves_bytes,
        command_of(report, context, more),
        codes=(finding.code,),
        python=to_keep(more, advice),
    )


def _short(message: str, most: int = 160) -> str:
    first = message.split("\n", 1)[0]
    return first if len(first) <= most else first[: most - 1] + "…"


def faster_products(report: Report, context: Context) -> Iterable[PlannedChange]:
    """TF32, where float32 matrix products take most of a profiled step: no fusion gains as much."""
    hint = report.steps.hint if report.steps is not None else None
    if hint is None or "TF32" not in hint:
        return
    yield PlannedChange(
        "Let float32 matrix products use TF32: torch.set_float32_matmul_precision('high')",
        ChangeKind.KNOB,
        None,
        None,
        None,
        hint.partition(":")[0],
        None,
        None,
        _with_tf32(report, context),
        note="it rounds their inputs to 10 bits of mantissa",
    )


def _with_tf32(report: Report, context: Context) -> str:
    """The run timed with the variable that does the same (``check_env`` of aten/src/ATen/Context.h, 1.12 to
    2.13; a program that sets it itself wins), held against the run before."""
    if context.request is None or not can_run_again(context):
        return compare_logs(report)
    again = run_again(context.request, ("--time", "--verify"))
    return f"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 {again} && fusiondoc compare"


def command_of(report: Report, context: Context, more: Sequence[str]) -> str:
    """What proves a change: the run again, or two logs compared."""
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, more)
    return compare_logs(report)


def can_run_again(context: Context) -> bool:
    """Whether it is a run of a target of this user's: not of a log, a notebook, or a capture of another's,
    whose author would choose what is run."""
    request = context.request
    if request is None or not context.own or request.bundled or request.target.text is None:
        return False
    return request.target.kind != IN_PROCESS and not {"command", "script_args"} & set(request.masked)


def run_again(request: KeptRequest, more: Sequence[str] = (), command: str = "diagnose") -> str:
    """``fusiondoc diagnose TARGET`` with the options of the run, and those in ``more`` for it."""
    options = request.options
    module = bool(options.script) and request.target.kind == "module"
    words = ["fusiondoc", command, *(["-m"] if module else []), request.target.text or ""]
    for name, usual in (("fuser", "auto"), ("frontend", "auto"), ("device", None), ("seed", None)):
        value = getattr(options, name)
        if value not in (None, usual) and f"--{name}" not in more:
            words += [f"--{name}", str(value)]
    if options.runs not in (None, 5) and "--runs" not in more:
        words += ["--runs", str(options.runs)]
    flags = {"backward": options.backward, "trace": options.trace, "freeze": options.freeze}
    flags.update({"script": options.script and not module, "no-freeze": options.no_freeze})
    for name, given in flags.items():
        if given and f"--{name}" not in more and not (name == "no-freeze" and "--freeze" in more):
            words.append(f"--{name}")
    for recipe in options.recipes if "--recipe" not in more else ():
        words += ["--recipe", recipe]
    if options.step_function is not None:
        words += ["--step-function", options.step_function]
    for text in options.inputs:
        words += ["--input", text]
    for knob, value in options.knobs.items():
        if f"{knob}={value}" not in more:
            words += ["--knob", f"{knob}={value}"]
    # Those of torch's launcher, as fusiondoc takes them.
    words += [f"--{one[2:].replace('_', '-')}" for one in options.launcher if one != "--standalone"]
    if "--python" in request.command[:-1]:
        words += ["--python", request.command[request.command.index("--python") + 1]]
    words += more
    if options.script_args:
        words += ["--", *options.script_args]
    return shlex.join(words)


def to_keep(options: Sequence[str], said: str) -> str | None:
    """The lines of Python that set the knobs of these options for good; None without any, or where ``said``
    has them."""
    given = [one.partition("=") for name, one in zip(options, options[1:]) if name == "--knob"]
    lines = [line for line in (knob_line(name, value) for name, _, value in given) if line not in said]
    return "\n".join(["# to keep it, before the first call:", *lines]) if lines else None


def without_commands_of_others(report: Report, name: str) -> Report:
    """A saved report, which anybody may have written, with commands that only read it, and without the edits
    that a reader of SARIF applies to files."""
    command = shlex.join(["fusiondoc", "compare", f"./{name}" if name.startswith("-") else name, "new.log"])
    return replace(
        report, plan=tuple(replace(one, command=command, edits=()) for one in report.plan), plan_try=None
    )


def compare_logs(report: Report) -> str:
    """``fusiondoc compare OLD NEW`` for a log: the new one is made as the old one was."""
    name = (report.target.capture or report.target.name or "old.log").split(", ")[0]
    old = "old.log" if name in ("-", "<stdin>", "stdin") or name.startswith("<") else name
    return shlex.join(["fusiondoc", "compare", f"./{old}" if old.startswith("-") else old, "new.log"])
