"""What ``fusiondoc kernels`` looks at: a target that it runs, a log, a capture, or a capture run again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

import click

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import FusiondocError, UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.dumps import USUAL, how_to_set, is_set
from fusiondoc.model.report import Dump, Kernel, Report
from fusiondoc.reports.kernel_texts import present
from fusiondoc.workflows.load import is_capture, report_from, report_of

FOLDER = "kernels"
"""The capture of a run again, inside the capture of the run it repeats."""

_TARGET_ENDINGS = (".py", ".pt", ".pth", ".ts")


@dataclass(frozen=True)
class Looked:
    """``failed`` is the error that the run ended with; ``ran`` whether there was a run just now; ``lacking``
    the dumps that a log does not hold, which was said."""

    report: Report
    failed: FusiondocError | None = None
    interrupted: bool = False
    ran: bool = False
    lacking: tuple[str, ...] = ()


def is_target(text: str) -> bool:
    """Whether an argument is something to run: a program or model, or ``module:NAME``. A file that is there
    and has no such ending is a log."""
    if text == "-" or Path(text).is_dir():
        return False
    file = text
    head, colon, tail = text.rpartition(":")
    if colon and tail.isidentifier() and not Path(text).exists():
        file = head
        if not file.endswith(_TARGET_ENDINGS):
            return all(part.isidentifier() for part in head.split("."))
    return file.lower().endswith(_TARGET_ENDINGS)


def look(
    arguments: Sequence[str], dumps: Sequence[str], options: Mapping[str, Any], given: set[str]
) -> Looked:
    """The report to show. ``options`` are those of a run; ``given`` are those of them that were written."""
    if arguments and is_target(arguments[0]):
        return _run_target(arguments[0], arguments[1:], dumps, dict(options))
    if given:
        name = sorted(given)[0]
        raise UsageError(
            f"--{name.replace('_', '-')} is for running a TARGET, and none is named",
            "Name the target: fusiondoc kernels TARGET --dump NAME",
        )
    if not arguments:
        return of_capture(CaptureStore().newest(), dumps)
    if len(arguments) == 1 and is_capture(Path(arguments[0])):
        return of_capture(Capture(Path(arguments[0])), dumps)
    for name in dumps:
        check_known(name)
    report = report_from(arguments)
    return Looked(report, lacking=_lacking(report, dumps, ", ".join(arguments[:3])))


def check_known(name: str) -> None:
    """UsageError unless some torch has a dump of that name: a log does not say which torch it is of."""
    known = [*catalogue.dump_options(), *(dump.name for dump in catalogue.fuser_dumps())]
    if name not in known:
        raise UsageError(f"there is no dump '{name}'. {did_you_mean(name, known)}", "fusiondoc knobs --all")


def of_capture(capture: Capture, dumps: Sequence[str]) -> Looked:
    """The capture's report; where it lacks a dump, that of its target run again with it."""
    lacking = [name for name in dumps if not is_set(name, capture.request.variables)]
    if not lacking:
        return Looked(_report(capture), capture.failure())
    again = _earlier(capture)
    had = (again or capture).request.options.dumps
    if again is not None and all(is_set(name, again.request.variables) for name in dumps):
        return Looked(_report(again), again.failure())
    return _run_again(capture, had, dumps, lacking)


def _run_again(capture: Capture, had: Sequence[str], dumps: Sequence[str], lacking: Sequence[str]) -> Looked:
    from fusiondoc.captures.request_again import request_again
    from fusiondoc.captures.store import Within
    from fusiondoc.fuser_knobs.dumps import together

    request = request_again(capture, together(had, dumps))
    # Refused before it is said that something runs.
    _check(request)
    click.echo(
        f"note: {capture.name} has no {', '.join(lacking)}; running {request.target.label} again with it",
        err=True,
    )
    return _run(request, Within(capture.path, FOLDER))


def _run_target(
    target: str, script_args: Sequence[str], dumps: Sequence[str], options: dict[str, Any]
) -> Looked:
    from fusiondoc.cli.options import make_request

    options["dumps"] = dumps
    request = make_request(target, script_args, options)
    nvfuser = _check(request)
    fuser = "nnc" if request.fuser == "auto" and not nvfuser else request.fuser
    usual = [name for name in USUAL.get(fuser, ()) if name not in dumps]
    options["dumps"] = (*dumps, *usual)
    return _run(make_request(target, script_args, options), CaptureStore())


def _check(request: Any) -> bool:
    """Refuse dumps that this torch does not print; whether it has nvFuser."""
    from fusiondoc.fuser_knobs.dumps import check_dumps
    from fusiondoc.runner.interpreter import inspect
    from fusiondoc.runner.variables import has_nvfuser, release

    interpreter = inspect(request.python)
    torch = interpreter.require_torch()
    check_dumps(request.dumps, request.fuser, torch, (1, 10) <= release(torch) < (2, 2))
    return has_nvfuser(torch, interpreter.torch_cuda)


def _run(request: Any, place: Any) -> Looked:
    from fusiondoc.runner.progress import terminal_progress
    from fusiondoc.workflows.run import run_target

    ran = run_target(request, place, tell=lambda line: click.echo(line, err=True), progress=terminal_progress)
    return Looked(_report(ran.capture), ran.failed, ran.interrupted, True)


def _report(capture: Capture) -> Report:
    """The report of a capture, with the files that nvFuser wrote for each kernel."""
    from fusiondoc.captures.dump_files import texts

    report = report_of(capture)
    files = texts(capture)
    return replace(
        report, kernels=tuple(_with(kernel, files.get(kernel.name, ())) for kernel in report.kernels)
    )


def _with(kernel: Kernel, files: Sequence[tuple[str, str]]) -> Kernel:
    """A file takes the place of the line that names it."""
    options = [option for option, _ in files]
    kept = [dump for dump in kernel.dumps if dump.option not in options]
    return replace(kernel, dumps=(*kept, *(Dump(option, text) for option, text in files)))


def _earlier(capture: Capture) -> Capture | None:
    path = capture.path / FOLDER
    return Capture(path) if is_capture(path) else None


def _lacking(report: Report, dumps: Sequence[str], name: str) -> tuple[str, ...]:
    """A log cannot be run again: say what to set. Where it holds some of the dumps, that is a note."""
    have = present(report.kernels)
    lacking = tuple(one for one in dumps if one not in have)
    if not lacking:
        return ()
    hint = f"Run it with {how_to_set(lacking)}"
    hint += f", or give the program: fusiondoc kernels TARGET --dump {','.join(lacking)}"
    message = f"{name} holds no {', '.join(lacking)} of a kernel"
    if not report.kernels:
        message = f"{name} names no kernel, so it holds no {', '.join(lacking)} of one"
    if have:
        message += f" (it holds {', '.join(have)})"
    if len(lacking) == len(dumps):
        raise UsageError(message, hint)
    click.echo(f"note: {message}. {hint}", err=True)
    return lacking
