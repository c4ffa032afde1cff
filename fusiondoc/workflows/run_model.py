"""A model of this process, with its inputs, run in a child: what ``fusiondoc.diagnose`` and the pytest
fixture have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.captures.request import RunRequest, TargetSpec
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs.checks import check_knob
from fusiondoc.model.fusers import REQUESTS
from fusiondoc.workflows.model_files import write_target
from fusiondoc.workflows.run import Finished, FollowUps, Tell, report_run, run_target, tell_nobody

_THE_USUAL = FollowUps()


class Ready:
    """A capture folder (``captures.store.Place``) that already exists, with the model in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def new(self, slug: str) -> Path:
        """The folder."""
        return self._path


def run_model(
    fn: Callable[..., Any],
    inputs: Sequence[Sequence[Any]],
    request: RunRequest,
    folder: Path,
    *,
    by_name: bool = False,
    follow_ups: FollowUps = _THE_USUAL,
    peak: float | None = None,
    tell: Tell = tell_nobody,
) -> Finished:
    """Hand ``fn`` and its inputs to a child, and report its run.

    Args:
        inputs: the arguments, a sequence for each shape; at least one.
        request: how to run; its target only says what messages call the model.
        folder: an empty folder for the capture. The model is kept in it too, so that it can run again.
        by_name: see ``write_target``.

    Raises:
        FusiondocError: what ``fusiondoc diagnose`` would end with.
        KeyboardInterrupt: the user interrupted; the child was stopped.
    """
    label = request.target.text
    target = write_target(fn, inputs[0], folder, label, request.trace, inputs[1:], by_name)
    # What was traced for an archive is not to be traced again.
    request = replace(
        request,
        target=TargetSpec(label, "file", path=target.file),
        trace=request.trace and target.pickled,
    )
    ran = run_target(request, Ready(folder), tell=tell)
    if ran.interrupted:
        raise KeyboardInterrupt
    if ran.failed is not None:
        raise ran.failed
    # The probe cannot tell it of an archive.
    if target.source_map:
        ran.capture.add_source_map(target.source_map)
    return report_run(request, ran, follow_ups=follow_ups, peak=peak, tell=tell)


def check_fuser(fuser: str) -> str:
    """The fuser, if there is one of that name; else UsageError."""
    if fuser not in REQUESTS:
        raise UsageError(f"unknown fuser '{fuser}'", did_you_mean(fuser, REQUESTS))
    return fuser


def knob_texts(knobs: Mapping[str, Any] | None) -> dict[str, str]:
    """Values of knobs as ``--knob`` takes them; True is "on".

    Raises:
        UsageError: there is no such knob, or it does not take that value.
    """
    given = {name: _knob(value) for name, value in (knobs or {}).items()}
    for name, value in given.items():
        check_knob(name, value)
    return given


def name_of(fn: Any) -> str:
    """What messages call a function or module."""
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "lambda" if name == "<lambda>" else str(name)


def slug_of(fn: Any) -> str:
    """Its name as a part of a folder's name."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name_of(fn))[:40]


def _knob(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
