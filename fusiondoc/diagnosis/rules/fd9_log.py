"""FD9xx: missing parts of the log, and how to record them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from fusiondoc.captures.ending import Ended
from fusiondoc.captures.probe_records import LeftRunning
from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.diagnosis.no_log import program_of
from fusiondoc.diagnosis.of_fusers.findings import (
    COMPILED_LOG,
    errors_of_stand_alone,
    logged_failure,
    of_other_tools,
)
from fusiondoc.diagnosis.ranks_compared import to_do
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd1_fuser_off import WHAT_FUSION_NEEDS
from fusiondoc.diagnosis.rules.fd9_beyond_bounds import beyond_bounds
from fusiondoc.fuser_knobs.checks import KERNEL_DUMPS, LOG_LEVELS
from fusiondoc.fusers import (
    facts_of,
    fuser_of_dumps,
    nothing_compiled,
    plan_headers,
)
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.model import count
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Ranks
from fusiondoc.parsers.jit.graph_facts import LOOKS_AT
from fusiondoc.parsers.lines.error_texts import is_of_fuser

HOW_TO_LOG = Remedy(
    "Let fusiondoc run it: fusiondoc diagnose FILE.py;",
    "or set PYTORCH_JIT_LOG_LEVEL as fusiondoc explain FD901 shows, run it at least three times"
    " in one process, and keep stdout and stderr.",
)

PLANS = ("Optimized Graph:", *plan_headers())
"""Headers of the graphs that are plans."""

_OF_FUSION = {"Profiled Graph:", *PLANS}

_STATED_BY_A_FUSER = ("FD222", "FD223", "FD224", "FD233", "FD299")
"""Causes that are derived only if the log lacks the fuser's own reason."""


def missing_parts(report: Report, context: Context) -> Iterable[Finding]:
    """FD906: groups without kernels, kernels without groups, operators without the
    fuser's own reason."""
    effective = report.fuser.effective
    if effective is None and report.kernels:
        fuser = fuser_of_dumps()
    else:
        fuser = facts_of(effective)
    if (
        context.request is not None
        or fuser.switches.refusal_log is None
        or any(of_other_tools(report, context))
    ):
        return
    missing = list(_plans(context))
    missing += _reasons(report, context, fuser)
    if fuser.switches.dump_variable is not None:
        missing += _kernels(report, fuser.switches.dump_variable)
    if not missing:
        return
    variables = f"PYTORCH_JIT_LOG_LEVEL='{LOG_LEVELS[fuser.name]}'"
    if fuser.switches.dump_variable is not None:
        variables += f" {fuser.switches.dump_variable}={','.join(KERNEL_DUMPS)}"
    yield finding(
        "FD906",
        "This log does not show " + "; nor ".join(missing),
        remedy=Remedy(
            f"Set {variables} before the process starts, and keep stdout and stderr in one file;",
            "or let fusiondoc diagnose run it.",
        ),
    )


def _plans(context: Context) -> Iterable[str]:
    if context.observed.only_inner_plans:
        yield (
            "the code around its differentiable graphs, and so how much is fused"
            " (profiling_graph_executor_impl, which prints `Optimized Graph:`)"
        )


def _reasons(report: Report, context: Context, fuser: Fuser) -> Iterable[str]:
    worked_out = any(
        row.reason.code in _STATED_BY_A_FUSER
        for row in report.unfused
        if row.op.startswith("aten::")
    )
    stated = any(row.reason.stated for row in report.unfused)
    seen = context.observed
    own = fuser.log.refusals
    if own is not None:
        is_logged = own.file in seen.levels
    else:
        is_logged = LOOKS_AT in seen.headers
    if worked_out and not stated and not is_logged:
        level = fuser.switches.refusal_log
        yield f"the fuser's reasons for the operators that it rejected ({level})"


def _kernels(report: Report, dump_variable: str) -> Iterable[str]:
    if report.kernels and not report.groups:
        yield "which operators the kernels compute (graph_fuser)"
    elif any(not kernel.groups for kernel in report.kernels):
        yield "to which group each kernel belongs (>>kernel_cache)"
    if any(not group.fallback for group in report.groups) and not report.kernels:
        yield f"which kernels ran and how fast ({dump_variable})"


def nothing_in_log(report: Report, context: Context) -> Iterable[Finding]:
    """FD901: no line about fusion."""
    if context.cut_short or _is_about_fusion(report, context):
        return
    if _what_fusion_needs_is_off(report, context):
        return  # FD104 names the cause
    request = context.request
    if request is not None and request.target.kind == IN_PROCESS:
        yield finding(
            "FD901",
            "Nothing was compiled inside the block, so no fuser ran",
            remedy="A model that has run before keeps its plan: script it again inside the block, or put its"
            " first three calls there.",
        )
    elif context.redirected.loses_of(report.fuser.effective):
        return  # FD907: the log misses the output of fusers
    elif request is not None:
        yield _nothing_in_program(report, context)
    else:
        yield _nothing_in_plain_log(report, context)


def _is_about_fusion(report: Report, context: Context) -> bool:
    """True if anything in the log is about fusion, or comes from other tools (FD910
    names them)."""
    observed = context.observed
    if observed.headers.keys() & _OF_FUSION or observed.other_tools is not None:
        return True
    if report.groups or report.kernels or report.fallbacks or report.unfused:
        return True
    return bool(errors_of_stand_alone(context))


def _what_fusion_needs_is_off(report: Report, context: Context) -> bool:
    if context.switches.executor_off:
        return True
    return any(
        knob.effective == "off" and knob.name in WHAT_FUSION_NEEDS
        for knob in report.knobs
    )


def _nothing_in_program(report: Report, context: Context) -> Finding:
    """Return FD901 for a program that ran nothing in TorchScript, or had nothing
    compiled."""
    advice = nothing_compiled(report.frontend)
    if advice is not None:
        message = "The program had torch.compile, and nothing was compiled, so no fuser ran"
        return finding("FD901", message, remedy=Remedy(*advice))
    itself = " itself" if context.left is not None else ""
    instead = ""
    if report.script is not None:
        names = [model.name for model in report.script.models]
        instead = f": it ran {report.script.instead}"
        if names:
            instead += (
                f", and did not call what it scripted: {', '.join(names[:4])}"
            )
    return finding(
        "FD901",
        f"The program{itself} ran nothing in TorchScript, so no fuser ran{instead}",
        remedy=Remedy(
            "Script or trace the model in it (torch.jit.script) and call it at least three times;",
            "or name the function and its inputs: fusiondoc diagnose FILE.py:NAME --input 'float32[8,128]'.",
        ),
    )


def _nothing_in_plain_log(report: Report, context: Context) -> Finding:
    program = program_of(report)
    if program is not None and not report.parse.recognised:
        return finding(
            "FD901",
            f"{program} is a Python program, not a log",
            remedy=f"Run it: fusiondoc diagnose {shlex.quote(program)}",
        )
    errors = []
    for error in context.observed.errors:
        errors.append(logged_failure(report, error.text, "", ()))
    if any(failed is not None for failed in errors):
        remedy = COMPILED_LOG
    else:
        remedy = HOW_TO_LOG
    return finding("FD901", _content_of_log(report, context), remedy=remedy)


def _content_of_log(report: Report, context: Context) -> str:
    """Return the contents of a log without fusion, as a sentence."""
    if any(is_of_fuser(error.text) for error in context.observed.errors):
        return "The log holds an error of a fuser, and no line about its groups"
    if not report.parse.lines:
        return "The log is empty"
    levels = sorted(context.observed.levels)
    if levels:
        return f"The log's JIT lines are only of {', '.join(levels[:4])} and name no execution plan"
    if report.parse.recognised:
        return "The log contains only dumps that name neither a group nor a kernel's launch"
    return "The log has no line about fusion"


def interrupted(report: Report, context: Context) -> Iterable[Finding]:
    """FD902: the user interrupted the run."""
    if context.result.ended is Ended.INTERRUPTED:
        yield finding(
            "FD902",
            "The run was interrupted; this report covers the run up to then",
            severity="note",
            remedy=Remedy(
                "Let it run to its end;",
                "fewer passes (--runs) or smaller inputs take less time.",
            ),
        )


def cut_off(report: Report, context: Context) -> Iterable[Finding]:
    """FD902: graphs or kernels that are not printed to their end, lines that the
    output of other processes split."""
    number = context.observed.torn
    torn = f"at least {count(number, 'line')} {'is' if number == 1 else 'are'} torn apart by other processes"
    parts = []
    if report.parse.truncated:
        cut = report.parse.truncated
        if cut == 1:
            whole = "1 graph or kernel is"
        else:
            whole = f"{cut:,} graphs or kernels are"
        parts.append(
            f"{whole} cut off; what {'it' if cut == 1 else 'they'} held is missing from this report"
        )
    if number:
        if parts:
            parts.append(torn)
        else:
            parts.append(
                f"{torn[0].upper()}{torn[1:]}; what they held may be missing or wrong"
            )
    if parts:
        if number:
            remedy = (
                "Keep a log for each process (torchrun --redirects 3 --log-dir DIR, srun --output"
                " run.%t.log), and read that folder."
            )
        else:
            remedy = "Keep the whole output of the run (both streams, from its start to its end)."
        yield finding(
            "FD902",
            "; ".join(parts),
            evidence=context.observed.torn_lines,
            remedy=remedy,
        )


def unknown_lines(report: Report, context: Context) -> Iterable[Finding]:
    """FD903: lines of torch's log that no parser recognises."""
    if report.parse.unrecognised:
        first = report.parse.first_unrecognised
        yield finding(
            "FD903",
            f"{count(report.parse.unrecognised, 'log line')} not recognised"
            + (
                f", first {first[0].file}:{first[0].line}: {first[0].text[:80]}"
                if first
                else ""
            ),
            remedy="They may be of a torch version that fusiondoc does not know: please report them.",
        )


def out_of_order(report: Report, context: Context) -> Iterable[Finding]:
    """FD904: stdout and stderr are not in true order."""
    if context.observed.disordered:
        yield finding(
            "FD904",
            "stdout and stderr are out of order (or several processes share the log), so some kernels"
            " cannot be assigned to their groups",
            remedy=Remedy(
                "Capture with fusiondoc diagnose, which keeps the order;",
                "with several processes, prefix each line with its rank (torchrun --tee 3, srun -l, mpirun"
                " --tag-output).",
            ),
        )


def turned_away(report: Report, context: Context) -> Iterable[Finding]:
    """FD907: the output of fusers goes to file descriptors that are no longer the
    log's."""
    if context.redirected.loses_of(report.fuser.effective):
        then = "meanwhile" if context.redirected.while_away else "after that"
        yield finding(
            "FD907",
            f"The program's {context.redirected.in_words}: the output of the fusers {then} is not in the log",
            remedy=Remedy(
                "Leave descriptors 1 and 2 open and as they are while fusiondoc runs it (os.close,"
                " os.closerange, os.dup2, a daemon's start);",
                "sys.stdout and sys.stderr may be replaced.",
            ),
        )


def longer_than_its_limit(report: Report, context: Context) -> Iterable[Finding]:
    """FD909: the capture kept a part of the log."""
    left = report.parse.left_out
    if not left.lines:
        return
    if left.about_fusion:
        lost = f"{left.about_fusion:,} of them about fusion"
    else:
        lost = "none of them about fusion"
    yield finding(
        "FD909",
        f"{left.lines:,} lines ({left.bytes:,} bytes) from the middle of the log were not kept, {lost}",
        remedy=Remedy(
            "--log-limit MIB keeps more;", "fewer passes (--runs) print less."
        ),
    )


def left_running(report: Report, context: Context) -> Iterable[Finding]:
    """FD908: processes of the program that were still running after its end."""
    left, later = context.left, context.left_later
    if later is not None:
        yield finding(
            "FD908",
            f"After further runs of the program (without fallback, timed, profiled, tries, dumps)"
            f" fusiondoc ended {later.in_words}{_still(later)}",
            remedy=Remedy(
                "They belong to those runs;", "the log of the first one is whole."
            ),
        )
    if left is None:
        return
    if left.fusiondoc_gone:
        others = f", and {left.in_words}" if left.names else ""
        yield finding(
            "FD908",
            f"fusiondoc itself was ended during the run: the program was ended{others}",
            remedy=Remedy(
                "Run it again;", "this report covers the run up to then."
            ),
        )
        return
    yield finding(
        "FD908",
        f"After the program's end fusiondoc ended {left.in_words}{_still(left)}",
        remedy=Remedy(
            "Their work after that is not in the log.",
            "If they run the model, wait for them in the program (join, wait).",
        ),
    )


def ranks_differ(report: Report, context: Context) -> Iterable[Finding]:
    """FD911: the ranks of the run differ; or the log does not show which lines
    belong to which rank."""
    if report.ranks is None and context.observed.launched is not None:
        yield finding(
            "FD911",
            "torch's launcher started several processes, and lines do not name their process: groups and"
            " kernels of all ranks are counted together",
            evidence=(context.observed.launched,),
            remedy="Let each line name its rank (torchrun --tee 3), or keep a file for each (torchrun"
            " --redirects 3 --log-dir DIR), and read that folder.",
            severity="note",
        )
    if context.observed.same_local:
        yield finding(
            "FD911",
            "Several logs have lines of the same local ranks ([default0]:), which torchrun counts from 0 on"
            " each machine: they are read as parts of one log",
            remedy=nothing(
                "Nothing, if they are.",
                "Of several machines keep the lines with which torchrun starts too (2>&1), or a file for"
                " each rank (torchrun --redirects 3 --log-dir DIR), and read the folders.",
            ),
            severity="note",
        )
    if report.ranks is not None and report.ranks.differences:
        yield _difference_of_ranks(report.ranks)


def _difference_of_ranks(ranks: Ranks) -> Finding:
    """Return the finding on the first difference with a remedy, or the first of
    all; the others are counted."""
    shown, remedy = ranks.differences[0], None
    for difference in ranks.differences:
        remedy = to_do(difference)
        if remedy is not None:
            shown = difference
            break
    others = len(ranks.differences) - 1 + ranks.differences_left_out
    why = f" ({shown.why})" if shown.why else ""
    more = f"; and {count(others, 'more difference')}" if others else ""
    return finding(
        "FD911",
        f"The ranks of this run differ: {shown.text}{why}{more}",
        remedy=remedy
        or nothing(
            "Nothing, if this is intended: the section on ranks has each difference."
        ),
        severity=None if remedy is not None else "note",
    )


def _still(left: LeftRunning) -> str:
    if left.still_running:
        return f"; {left.still_running} could not be ended"
    return ""


OF_LOG = (
    interrupted,
    nothing_in_log,
    turned_away,
    cut_off,
    unknown_lines,
    out_of_order,
    longer_than_its_limit,
    beyond_bounds,
    left_running,
    of_other_tools,
    ranks_differ,
)
LAST = (missing_parts,)
"""The rules that run after all others of their severity."""
