"""The commands that prove a change, quoted for a POSIX shell: the requested run
again with the change, or a comparison of two logs; and the Python lines that make a
setting permanent."""

from __future__ import annotations

import shlex
from dataclasses import replace

from fusiondoc.captures.request import IN_PROCESS, KeptRequest
from fusiondoc.diagnosis.no_log import is_no_log, program_of
from fusiondoc.diagnosis.rules import Context
from fusiondoc.fuser_knobs.catalogue import knob_line
from fusiondoc.model.change_plan import NEW_FOLDER, NEW_LOG
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.model.report import Report


def command_of(
    report: Report, context: Context, setting: Setting = AS_REQUESTED
) -> str:
    """Return the command that proves a change: the run again, or a comparison of
    two logs."""
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, setting)
    return compare_logs(report)


def can_run_again(context: Context) -> bool:
    """True if the run can be repeated: it ran a target of this user, not of a log,
    a notebook or a capture of somebody else, who would then choose the program to
    run."""
    request = context.request
    if (
        request is None
        or not context.own
        or request.bundled
        or request.target.text is None
    ):
        return False
    return request.target.kind != IN_PROCESS and not {
        "command",
        "script_args",
    } & set(request.masked)


def run_again(
    request: KeptRequest, setting: Setting = AS_REQUESTED, command: str = "diagnose"
) -> str:
    """Return ``fusiondoc diagnose TARGET`` with the options of the run, replaced or
    extended by those of ``setting``."""
    return shlex.join(["fusiondoc", *request.argv(setting.options, command)])


def to_keep(setting: Setting) -> str | None:
    """Return the Python lines that set the knobs of a setting permanently; None if
    it has no knobs."""
    lines = [knob_line(name, value) for name, value in setting.knobs.items()]
    if lines:
        return "\n".join(["# to keep it, before the first call:", *lines])
    return None


def without_commands_of_others(report: Report, name: str) -> Report:
    """Return a saved report, which anybody may have written, with commands that
    only read it and without edits, which a reader of SARIF would apply to files."""
    command = shlex.join(
        [
            "fusiondoc",
            "compare",
            f"./{name}" if name.startswith("-") else name,
            NEW_LOG,
        ]
    )
    return replace(
        report,
        plan=tuple(replace(one, command=command, edits=()) for one in report.plan),
        plan_try=None,
    )


def compare_logs(report: Report) -> str:
    """Return ``fusiondoc compare OLD NEW`` for a log or a folder of logs: the user
    makes the new log as the old one was made. For a file that is no log, or has
    nothing in it, return the command to make or parse one."""
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
    return shlex.join(
        ["fusiondoc", "compare", f"./{old}" if old.startswith("-") else old, new]
    )
