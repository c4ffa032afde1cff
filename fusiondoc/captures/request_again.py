"""The request of an earlier run, to run it once more."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Mapping, Sequence

from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.own import is_own
from fusiondoc.captures.request import KeptTarget, Options, RunRequest
from fusiondoc.captures.target import TargetSpec
from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import DUMP
from fusiondoc.fuser_knobs.log_levels import VARIABLE as JIT_LOG


def request_again(
    capture: Capture, dumps: Sequence[str], command: Sequence[str] = (), *, trusted: bool = False
) -> RunRequest:
    """What ``capture`` was asked for, with these dumps and without ``--verify``. Variables of torch that the
    user had set then and has not set now are set again, but for those that ask for logs and dumps.

    Args:
        trusted: the user says that whoever made the capture may name what runs here.

    Raises:
        UsageError: its target, folder or request is gone, or somebody else made it.
    """
    if not trusted and not is_own(capture.path, REQUEST):
        raise UsageError(
            f"'{capture.name}' was not made here by you, so what it asks for is not run",
            "Name the target to run it yourself; if you trust who made the capture, add --trust-capture.",
        )
    request = capture.request
    target = _target(request.target, capture)
    folder = Path(request.cwd or ".")
    if not folder.is_dir():
        raise UsageError(
            f"'{capture.name}' ran in {folder}, which is gone", "Name the target to run it from here."
        )
    told = {one.name: getattr(request.options, one.name) for one in fields(Options)}
    options = {name: value for name, value in told.items() if value is not None}
    options.update(dumps=tuple(dumps), verify=False)
    return RunRequest(
        target=target,
        python=Path(request.python or "python"),
        cwd=folder,
        variables=_variables(request.environment_user, request.environment_set),
        command=tuple(command),
        **options,
    )


def _target(told: KeptTarget, capture: Capture) -> TargetSpec:
    kind, path = told.kind, told.path
    if kind not in ("file", "module", "archive") or (kind != "module") != bool(path):
        raise UsageError(
            f"'{capture.name}' does not say what ran", "Name the target: fusiondoc kernels TARGET"
        )
    if path and not Path(path).is_file():
        raise UsageError(
            f"{path} is gone, so '{capture.name}' cannot run again", "Name its target where it is now."
        )
    return TargetSpec(str(told.text), kind, Path(path) if path else None, told.module, told.name)


def _variables(user: Mapping[str, str], made: Mapping[str, str]) -> dict[str, str]:
    apart = {DUMP, JIT_LOG, *made, *os.environ}
    return {name: value for name, value in user.items() if name not in apart and catalogue.is_kept(name)}
