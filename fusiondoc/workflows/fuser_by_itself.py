"""The fuser that the program of a capture uses on its own, compared with that of
the run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.fuser_knobs import has_gpu_fuser
from fusiondoc.fuser_knobs.checks import INSTEAD, WITH_OPTIONS
from fusiondoc.fusers import of_torchscript
from fusiondoc.model.own_fuser import OwnFuser
from fusiondoc.model.report import Report

_FUSERS = of_torchscript()


def own_fuser(report: Report, capture: Capture) -> OwnFuser | None:
    """Describe the fuser that the program uses on its own. None if it is the fuser
    of the run, or if it is not known: no executor's plan holds a device."""
    recorded, env = capture.records.by_itself, report.environment
    torch, device = env.get("torch"), _device(report)
    own = recorded.fusers.get(device) if device is not None else None
    if torch is None or device is None or own is None:
        return None
    cuda = env.get("cuda")
    wanted = report.fuser.effective
    if capture.records.target.how == IN_PROCESS:
        if device == "cuda" and has_gpu_fuser(torch, cuda):
            wanted = WITH_OPTIONS.name
        else:
            wanted = INSTEAD
        if report.groups or own != "none":
            return None
    if wanted not in _FUSERS or own not in (*_FUSERS, "none") or wanted == own:
        return None
    from fusiondoc.runner.own_launcher import (
        missing_switches,
    )  # only here: it brings what starts processes

    lines = missing_switches(
        wanted, device, recorded.switches, torch, cuda, env.get("llvm") == "True"
    )
    return OwnFuser(own, device, wanted, lines)


def _device(report: Report) -> str | None:
    """The devices on which the groups and other operators of the plans compute, by
    their types; a torch that was built without CUDA and HIP has the CPU alone. None
    if the types do not show it, or there is no operator."""
    if not report.groups and not report.unfused:
        return None
    found = set()
    for text in _types(report):
        found.update(re.findall(r"device=(cpu|cuda)", text))
    if not found and not {"cuda", "hip"} & set(report.environment):
        return "cpu"
    if "cuda" in found:
        return "cuda"
    if found:
        return "cpu"
    return None


def _types(report: Report) -> Iterator[str]:
    for group in report.groups:
        yield from (*group.inputs, *group.outputs)
    for program in report.programs:
        for node in program.nodes:
            yield from (*node.inputs, *node.outputs)
