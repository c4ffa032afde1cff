"""What ``fusiondoc kernels`` looks at: a target that it runs, a log, a capture, or a capture run again."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.kept_files import texts
from fusiondoc.captures.own import request_again
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Place, Within
from fusiondoc.errors import FusiondocError, UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import USUAL, check_dumps, how_to_set, is_set, together
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Dump, Kernel, Report
from fusiondoc.reports.text.kernel_listing import present
from fusiondoc.runner.interpreter import inspect
from fusiondoc.runner.launch import ShowProgress
from fusiondoc.runner.variables import has_nvfuser, release
from fusiondoc.workflows.inputs import Kind, is_capture, sources_of
from fusiondoc.workflows.load import report_from, report_of
from fusiondoc.workflows.run import Tell, run_target

FOLDER = "kernels"
"""The capture of a run again, inside the capture of the run it repeats."""


@dataclass(frozen=True)
class Looked:
    """``failed`` is the error that the run ended with; ``ran`` whether there was a run just now; ``lacking``
    the dumps that a log does not hold, which was said."""

    report: Report
    failed: FusiondocError | None = None
    interrupted: bool = False
    ran: bool = False
    lacking: tuple[str, ...] = ()


def of_target(request: RunRequest, store: Place, *, tell: Tell, progress: ShowProgress) -> Looked:
    """Run a target that is to print the dumps of the request, and those that name its kernels."""
    nvfuser = _check(request)
    fuser = "nnc" if request.fuser == "auto" and not nvfuser else request.fuser
    usual = [name for name in USUAL.get(fuser, ()) if name not in request.dumps]
    request = replace(request, dumps=(*request.dumps, *usual))
    return _run(request, store, tell, progress)


def of_arguments(
    arguments: Sequence[str],
    dumps: Sequence[str],
    *,
    trusted: bool = False,
    tell: Tell,
    progress: ShowProgress,
) -> Looked:
    """The report of logs, a capture or a saved report; of the newest capture without any. ``trusted``: what
    the capture asks for may run here, whoever made it."""
    sources = sources_of(arguments)
    if len(sources) == 1 and sources[0].kind is Kind.CAPTURE:
        return of_capture(sources[0].capture(), dumps, trusted=trusted, tell=tell, progress=progress)
    for name in dumps:
        check_known(name)
    report = report_from(arguments)
    return Looked(report, lacking=_lacking(report, dumps, ", ".join(arguments[:3]), tell))


def check_known(name: str) -> None:
    """UsageError unless some torch has a dump of that name: a log does not say which torch it is of."""
    known = [*catalogue.dump_options(), *(dump.name for dump in catalogue.fuser_dumps())]
    if name not in known:
        raise UsageError(f"there is no dump '{name}'. {did_you_mean(name, known)}", "fusiondoc knobs --all")


def of_capture(
    capture: Capture, dumps: Sequence[str], *, trusted: bool = False, tell: Tell, progress: ShowProgress
) -> Looked:
    """The capture's report; where it lacks a dump, that of its target run again with it."""
    lacking = [name for name in dumps if not is_set(name, capture.request.variables)]
    if not lacking:
        return Looked(_report(capture), capture.failure())
    again = _earlier(capture)
    had = (again or capture).request.options.dumps
    if again is not None and all(is_set(name, again.request.variables) for name in dumps):
        return Looked(_report(again), again.failure())
    request = request_again(capture, together(had, dumps), trusted=trusted)
    # Refused before it is said that something runs.
    _check(request)
    tell(f"note: {capture.name} has no {', '.join(lacking)}; running {request.target.label} again with it")
    return _run(request, Within(capture.path, FOLDER), tell, progress)


def _check(request: RunRequest) -> bool:
    """Refuse dumps that this torch does not print; whether it has nvFuser."""
    interpreter = inspect(request.python)
    torch = interpreter.require_torch()
    check_dumps(request.dumps, request.fuser, torch, (1, 10) <= release(torch) < (2, 2))
    return has_nvfuser(torch, interpreter.torch_cuda)


def _run(request: RunRequest, place: Place, tell: Tell, progress: ShowProgress) -> Looked:
    ran = run_target(request, place, tell=tell, progress=progress)
    return Looked(_report(ran.capture), ran.failed, ran.interrupted, True)


def _report(capture: Capture) -> Report:
    """The report of a capture, with the files that nvFuser wrote for each kernel."""
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


def _lacking(report: Report, dumps: Sequence[str], name: str, tell: Tell) -> tuple[str, ...]:
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
    tell(f"note: {message}. {hint}")
    return lacking
