"""A run of what a test gave, and its report. (named as runner/child.py: the same child, of a test)"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.target import TargetSpec
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs.checks import check_knob
from fusiondoc.model.fusers import REQUESTS
from fusiondoc.model.report import Report
from fusiondoc.testing.archive import write_target
from fusiondoc.testing.place import Numbered
from fusiondoc.workflows.run import report_run, run_target

OPTIONS = ("trace", "knobs", "dumps", "seed", "timeout", "verify", "no_freeze")
"""Fields of ``RunRequest`` that a test may set besides the parameters of ``Fusion.diagnose``."""


def run_in_child(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    place: Callable[[], Path],
    test: str,
    fuser: str,
    backward: bool,
    runs: int,
    options: Mapping[str, Any],
) -> Report:
    """Run ``fn`` and return the report.

    Args:
        place: the folder for captures of this test, asked for when something is to be written.
        test: how messages name the test.
        options: values for ``OPTIONS``.

    Raises:
        FusiondocError: what ``fusiondoc diagnose`` would end with.
        KeyboardInterrupt: the user interrupted; the child was stopped.
    """
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"unknown option '{name}'", did_you_mean(name, OPTIONS))
    if fuser not in REQUESTS:
        raise UsageError(f"unknown fuser '{fuser}'", did_you_mean(fuser, REQUESTS))
    given = dict(options)
    given["knobs"] = {name: _knob(value) for name, value in (given.get("knobs") or {}).items()}
    for name, value in given["knobs"].items():
        check_knob(name, value)
    given["dumps"] = tuple(given.get("dumps") or ())
    name = _name(fn)
    folder = Numbered(place(), "".join(c if c.isalnum() and c.isascii() else "_" for c in name)[:40])
    label = f"{test} ({name})"
    target = write_target(fn, inputs, folder.path, label, bool(given.pop("trace", False)))
    request = RunRequest(
        target=TargetSpec(label, "file", path=target.file),
        python=Path(sys.executable),
        fuser=fuser,
        backward=backward,
        runs=runs,
        cwd=Path.cwd(),
        **given,
    )
    ran = run_target(request, folder)
    if ran.interrupted:
        raise KeyboardInterrupt
    if ran.failed is not None:
        raise ran.failed
    # The probe cannot tell it of an archive.
    ran.capture.add_source_map(target.source_map)
    return report_run(request, ran).report


def _knob(value: Any) -> str:
    """Values of knobs as ``--knob`` takes them; True is on."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _name(fn: Any) -> str:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "lambda" if name == "<lambda>" else str(name)
