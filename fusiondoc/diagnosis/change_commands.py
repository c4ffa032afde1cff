"""The command that proves a change: the run as it was asked for, with it. Quoted for a POSIX shell."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Sequence

from fusiondoc.captures.request import IN_PROCESS, KeptRequest
from fusiondoc.diagnosis.rules.rule import Context
from fusiondoc.fuser_knobs.catalogue import knob_line
from fusiondoc.model.report import Report


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
        if given and f"--{name}" not in more:
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
    name = str(report.target.get("capture") or report.target.get("name") or "old.log").split(", ")[0]
    old = "old.log" if name in ("-", "<stdin>", "stdin") or name.startswith("<") else name
    return shlex.join(["fusiondoc", "compare", f"./{old}" if old.startswith("-") else old, "new.log"])
