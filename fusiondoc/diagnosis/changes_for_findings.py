"""What the findings of a whole run say to do: the steps that come before any change of the program and those
that are left where none helps, and the changes of the run that ``diagnose --try`` runs.

Here is also the command that proves a change: the run as it was asked for, with it (quoted for a POSIX
shell).
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fusiondoc.captures.fuser_fault import FuserFault
from fusiondoc.captures.request import IN_PROCESS, KeptRequest
from fusiondoc.diagnosis.no_log import is_no_log, program_of
from fusiondoc.diagnosis.rules import ANY_SIZE, Context
from fusiondoc.fuser_knobs import catalogue, exists_in, parse_version
from fusiondoc.fuser_knobs.catalogue import knob_line
from fusiondoc.fusers import nnc, taken_by
from fusiondoc.model import count, dataclass, field
from fusiondoc.model.change_plan import NEW_FOLDER, NEW_LOG, ChangeKind, PlannedChange, Try
from fusiondoc.model.codes import CODES, EVAL, MORE_RUNS, OTHER_FUSER, TRACE
from fusiondoc.model.operators import CONTROL_FLOW, is_in_place
from fusiondoc.model.report import Finding, Report, Unfused
from fusiondoc.model.source import Options


def blocking_steps(report: Report, context: Context) -> Iterable[PlannedChange]:
    """Errors, and what kept everything from being fused: the first of each code."""
    seen: set[str] = set()
    if context.fault is not None:
        yield from _around_the_fuser(context.fault, report, context)
    for finding in report.findings:
        early = finding.code in ("FD101", "FD102", "FD103", "FD104", "FD901") and not report.groups
        failed = finding.code == "FD905"
        if finding.code in seen or finding.keeps_out or (finding.advice is None and not failed):
            continue
        if finding.code == "FD309" and context.fault is not None and context.fault.ways:
            continue  # its ways around come first
        if finding.severity == "error" or (early and finding.severity == "warning"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)
    switched_off = [row for row in report.unfused if row.reason.code == "FD104"]
    if switched_off and "FD104" not in seen and not context.switches.fuser_off_in_run:
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


_MOST_AROUND = 2


def _around_the_fuser(fault: FuserFault, report: Report, context: Context) -> Iterable[PlannedChange]:
    """The settings that were run after an error of the fused run alone, and that avoid it."""
    ends = "the run ends without an error" + " and agrees with eager" * fault.held_against_eager
    verify = ("--verify",) if fault.held_against_eager else ()
    for way in fault.ways[:_MOST_AROUND]:
        more = tuple(way.change.split(" ", 1))
        fuser = more[1] if more[0] == "--fuser" else None
        yield PlannedChange(
            f"Run it with {way.change}",
            ChangeKind.KNOB if fuser is None else ChangeKind.FUSER,
            None,
            None,
            None,
            f"{ends}: {count(way.ops_fused, 'operator')} in {count(way.groups, 'group')}",
            None,
            None,
            command_of(report, context, (*more, *verify)),
            operators=way.ops_fused,
            codes=("FD309",),
            python=to_keep(more, "") if fuser is None else None,
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
        if CODES[finding.code].change is ChangeKind.STATIC_SHAPES and seen & _OF_SHAPES:
            continue
        told = family in ("FD1", "FD3", "FD4", "FD5", "FD9") or (family == "FD2" and finding.keeps_out)
        if told and not finding.advice.startswith("Nothing"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)


_OF_SHAPES = {code for code, one in CODES.items() if one.change is ChangeKind.STATIC_SHAPES}
"""Groups and whole plans that are made again for other shapes: one change helps with both."""


def _of_finding(finding: Finding, report: Report, context: Context) -> PlannedChange:
    kind = CODES[finding.code].change
    more: tuple[str, ...] = ()
    advice = re.split(r"(?<=[.;]) ", finding.advice or "")[0].rstrip(".;")
    if kind is ChangeKind.RUNS and can_run_again(context) and context.request is not None:
        runs = 2 * (context.request.options.runs or 5)
        more, advice = ("--runs", str(max(runs, 5))), f"Run it more often: --runs {max(runs, 5)}"
    elif kind is ChangeKind.FUSER and finding.code != "FD104":
        more = ("--fuser", "auto")
    elif kind is ChangeKind.STATIC_SHAPES:
        more = tuple(ANY_SIZE.split()) if ANY_SIZE in (finding.advice or "") else ()
    elif finding.code == "FD401" and "--fuser nnc" in advice:
        more = ("--fuser", "nnc", "--time")
    if finding.code == "FD905":
        unknown = context.fault is None and context.request is not None and bool(report.groups)
        more = ("--fuser", "none") if unknown else more
        advice = "Find out whose error it is: run it without the fuser" if unknown else advice
        advice = advice or "Fix the program first: it ended with an error"
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
    return shlex.join(["fusiondoc", *request.argv(more, command)])


def to_keep(options: Sequence[str], said: str) -> str | None:
    """The lines of Python that set the knobs of these options for good; None without any, or where ``said``
    has them."""
    given = [one.partition("=") for name, one in itertools.pairwise(options) if name == "--knob"]
    lines = [line for line in (knob_line(name, value) for name, _, value in given) if line not in said]
    return "\n".join(["# to keep it, before the first call:", *lines]) if lines else None


def without_commands_of_others(report: Report, name: str) -> Report:
    """A saved report, which anybody may have written, with commands that only read it, and without the edits
    that a reader of SARIF applies to files."""
    command = shlex.join(["fusiondoc", "compare", f"./{name}" if name.startswith("-") else name, NEW_LOG])
    return replace(
        report, plan=tuple(replace(one, command=command, edits=()) for one in report.plan), plan_try=None
    )


def compare_logs(report: Report) -> str:
    """``fusiondoc compare OLD NEW`` for a log or a folder of logs: the new one is made as the old was.
    What is no log, or has nothing in it, is nothing to compare with."""
    if is_no_log(report):
        program = program_of(report)
        words = ["parse", "new.log"] if program is None else ["diagnose", program]
        return shlex.join(["fusiondoc", *words])
    target = report.target
    if target.capture is None and target.logs > 1:
        old, new = target.logs_in or "old", NEW_FOLDER
    else:
        old, new = target.capture or target.name or "old.log", NEW_LOG
        old = "old.log" if old in ("-", "stdin") or old.startswith("<") else old
    return shlex.join(["fusiondoc", "compare", f"./{old}" if old.startswith("-") else old, new])


MOST_TRIES = 8


@dataclass(frozen=True)
class Change:
    """``name`` as the report shows it; the rest is what differs from the run as it was asked for."""

    name: str
    codes: tuple[str, ...]
    knobs: Mapping[str, str] = field(default_factory=dict)
    fuser: str | None = None
    double_runs: bool = False
    trace: bool = False
    eval: bool = False
    freeze: bool = False
    in_place_off: bool = False


FREEZE, IN_PLACE_OFF = "--freeze", "inplace=False on all modules"

_REDUCED = {"nnc_reductions": nnc.REDUCTIONS}
"""Knob -> the operators that it is about; any for others."""

_FOLDED = CONTROL_FLOW.union(["aten::batch_norm", "aten::dropout", "aten::feature_dropout"])
"""What freezing takes out or makes constant (torch/csrc/jit/passes/freeze_module.cpp, fold_conv_bn.cpp)."""

_NEXT = {"nvfuser": ("nnc",), "nnc": ("nvfuser", "onednn"), "onednn": ("nnc",), "legacy": ("nnc",)}
"""The fuser to try in the place of another, best first."""


def suggested(report: Report, options: Options, kind: str, training: bool | None = None) -> list[Change]:
    """The changes that the findings of a report suggest and this torch can make, the worst finding's first.

    Args:
        options: of the run (``RunRequest.options()``); what was asked for already is no change.
        kind: of the target: "file", "module" or "archive"; an archive cannot be traced.
        training: whether the target is a module in training mode; None where it is none, or nothing tells.
    """
    rows = [row for row in report.unfused if row.ran is not False]
    found = list(dict.fromkeys([*(f.code for f in report.findings), *(row.reason.code for row in rows)]))
    wanted: dict[str, list[str]] = {}
    for code in found:
        for name in CODES[code].tries:
            wanted.setdefault(name, []).append(code)
    for row in rows:
        # Whatever the log states on it: traced, a condition on shapes or flags is gone.
        if row.op in CONTROL_FLOW and row.reason.code not in wanted.setdefault(TRACE, []):
            wanted[TRACE].append(row.reason.code)
    made = (_change(name, tuple(codes), report, options, kind) for name, codes in wanted.items())
    changes = [*_of_the_module(rows, options, training), *(change for change in made if change is not None)]
    return changes[:MOST_TRIES]


def _of_the_module(rows: Sequence[Unfused], options: Options, training: bool | None) -> Iterator[Change]:
    """Out of place, and frozen, where an operator tells that this can matter."""
    if training is None or options.script:
        return
    codes = tuple(dict.fromkeys(row.reason.code for row in rows if _of_module_in_place(row)))
    if codes and not options.in_place_off:
        yield Change(IN_PLACE_OFF, codes, in_place_off=True)
    codes = tuple(dict.fromkeys(row.reason.code for row in rows if _is_folded(row)))
    if codes and not (training and not options.eval) and not options.backward and not options.freeze:
        yield Change(FREEZE, codes, freeze=True)


def _of_module_in_place(row: Unfused) -> bool:
    counts = row.reason.code == "FD226"
    return (
        is_in_place(row.op)
        and not counts
        and row.source is not None
        and "torch/nn/functional" in row.source.replace("\\", "/")
    )


def _is_folded(row: Unfused) -> bool:
    return row.op in _FOLDED or "constant" in row.reason.text


def eval_mode() -> Change:
    """Asked for with ``--try-eval``: it changes what the model computes, so no finding does it alone."""
    return Change(EVAL, (), eval=True)


def _change(name: str, codes: tuple[str, ...], report: Report, options: Options, kind: str) -> Change | None:
    script = bool(options.script)
    if name == MORE_RUNS:
        return None if script else Change(f"--runs {2 * (options.runs or 1)}", codes, double_runs=True)
    if name == TRACE:
        already = script or options.trace or kind == "archive"
        return None if already else Change(TRACE, codes, trace=True)
    if name == OTHER_FUSER:
        fuser = other_fuser(report, options, codes)
        return None if fuser is None else Change(f"--fuser {fuser}", codes, fuser=fuser)
    knob, _, value = name.partition("=")
    if not _works(knob, report) or options.knobs.get(knob) == value:
        return None
    about = _REDUCED.get(knob)
    ops = {row.op for row in report.unfused if row.ran is not False and row.reason.code in codes}
    if about is not None and ops and not ops & about:
        return None
    return Change(name, codes, knobs={knob: value})


def _works(name: str, report: Report) -> bool:
    """Whether the knob does something on this torch and for the fuser at work."""
    knob = catalogue.knob(name)
    torch = report.environment.get("torch")
    if knob is None or torch is None or not exists_in(knob.live, parse_version(torch)):
        return False
    return knob.fuser in ("executor", report.fuser.effective)


def other_fuser(report: Report, options: Options, codes: tuple[str, ...]) -> str | None:
    """A fuser to try in the place of this one: it can run here and, where the codes are of operators alone,
    it takes one of them; None without one."""
    effective = report.fuser.effective or options.fuser
    torch = report.environment.get("torch")
    ops = {row.op for row in report.unfused if row.reason.code in codes}
    alone = bool(ops) and all(code in _WITHOUT_RULE for code in codes)
    for fuser in _NEXT.get(str(effective), ("nnc",)):
        if _can_run(fuser, report, options) and (not alone or any(taken_by(op, fuser, torch) for op in ops)):
            return fuser
    return None


_WITHOUT_RULE = ("FD201", "FD211", "FD233")
"""The fuser has no rule for the operator: another one that has none either is no change."""


def _can_run(fuser: str, report: Report, options: Options) -> bool:
    """What the environment tells without a trial: nvFuser needs torch 1.12 to 2.1, CUDA and a GPU; oneDNN
    Graph works on the CPU, in frozen modules, so without a backward pass."""
    environment = report.environment
    version = parse_version(environment["torch"]) if environment.get("torch") else (0, 0)
    if fuser == "nvfuser":
        return (1, 12) <= version <= (2, 1) and bool(environment.get("cuda")) and bool(environment.get("gpu"))
    if fuser == "onednn":
        on_gpu = any("cuda" in text for group in report.groups for text in group.inputs)
        return version >= (1, 12) and not options.backward and not on_gpu
    return True


def with_tries(findings: Iterable[Finding], tries: tuple[Try, ...]) -> list[Finding]:
    """The findings, their advice followed by "Tried --trace: 3 groups become 1." """
    if len(tries) < 2:
        return list(findings)
    return [
        _told(finding, tries, [one for one in tries[1:] if finding.code in one.codes]) for finding in findings
    ]


def _told(finding: Finding, every: tuple[Try, ...], tries: list[Try]) -> Finding:
    if not tries:
        return finding
    said = "; ".join(f"{one.change}: {effect(every[one.against], one)}" for one in tries)
    advice = f"{finding.advice} " if finding.advice else ""
    return replace(finding, advice=f"{advice}Tried {said}.")


def effect(asked: Try, one: Try) -> str:
    """What a change did, in a few words: "3 groups become 1, 4 more operators fused"."""
    if one.problem is not None:
        return f"fails ({one.problem})"
    parts = []
    if one.groups != asked.groups:
        parts.append(f"{count(asked.groups, 'group')} become{'s' * (asked.groups == 1)} {one.groups}")
    if one.ops_fused != asked.ops_fused:
        more = one.ops_fused - asked.ops_fused
        parts.append(f"{count(abs(more), 'operator')} {'more' if more > 0 else 'fewer'} fused")
    if one.unfused != asked.unfused:
        parts.append(f"{one.unfused} instead of {asked.unfused} not fused")
    if one.fallbacks != asked.fallbacks:
        parts.append(f"{count(one.fallbacks, 'fallback')} instead of {asked.fallbacks}")
    if asked.wrong and one.wrong is not None:
        parts.append("the numbers agree with eager" if not one.wrong else "the numbers still differ")
    parts = parts or ["the same groups"]
    if one.speed is not None:
        faster = f"{one.speed.value:.2f} times as fast"
        parts.append(faster if one.speed.differs else "no difference in speed")
    return ", ".join(parts)
