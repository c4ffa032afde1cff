"""The commands that prove a change, quoted for a POSIX shell: the run as it was
requested, with the change, or two logs compared; and the lines of Python that keep
a setting."""

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
    """What proves a change: the run again, or two logs compared."""
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, setting)
    return compare_logs(report)


def can_run_again(context: Context) -> bool:
    """Whether it is a run of a target of this user's: not of a log, a notebook, or
    a capture of another's, whose author would choose what is run."""
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
    """``fusiondoc diagnose TARGET`` with the options of the run, and those of
    ``setting`` instead of them or beside them."""
    return shlex.join(["fusiondoc", *request.argv(setting.options, command)])


def to_keep(setting: Setting) -> str | None:
    """The lines of Python that set the knobs of a setting for good; None without
    any."""
    lines = [knob_line(name, value) for name, value in setting.knobs.items()]
    return (
        "\n".join(["# to keep it, before the first call:", *lines])
        if lines
        else None
    )


def without_commands_of_others(report: Report, name: str) -> Report:
    """A saved report, which anybody may have written, with commands that only read
    it, and without the edits that a reader of SARIF applies to files."""
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
    """``fusiondoc compare OLD NEW`` for a log or a folder of logs: the new one is
    made as the old was. What is no log, or has nothing in it, is nothing to compare
    with."""
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
