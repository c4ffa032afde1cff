"""A run of what a test gave, and its report. (named as runner/child.py: the same child, of a test)"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.target import TargetSpec
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.report import Report
from fusiondoc.testing.place import numbered_folder
from fusiondoc.workflows.run_model import check_fuser, knob_texts, name_of, run_model, slug_of

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
    request = RunRequest(
        target=TargetSpec(f"{test} ({name_of(fn)})", "file"),
        python=Path(sys.executable),
        fuser=check_fuser(fuser),
        backward=backward,
        runs=runs,
        cwd=Path.cwd(),
        **{
            **options,
            "trace": bool(options.get("trace", False)),
            "knobs": knob_texts(options.get("knobs")),
            "dumps": tuple(options.get("dumps") or ()),
        },
    )
    return run_model(fn, [inputs], request, numbered_folder(place(), slug_of(fn))).report
