"""For which runs a section of a file of expectations holds: its ``when`` against what the report tells."""

from __future__ import annotations

import re

from fusiondoc.expectations.expectation import Expectations, Section, When
from fusiondoc.model.report import Report
from fusiondoc.model.source import path_ends_with

_PART = re.compile(r"(>=|<=|==|!=|>|<)?\s*(\d+(?:\.\d+)*)\Z")


def applying(expectations: Expectations, report: Report) -> list[Section]:
    """The sections that hold for the run that the report is of."""
    return [section for section in expectations.sections if why_not(section.when, report) is None]


def why_not(when: When, report: Report) -> str | None:
    """Why a section does not hold for this run; None if it does.

    What a plain log does not tell (its torch, its GPU) counts as different: a gate must not guess.
    """
    fuser, torch, gpu = report.fuser.effective, report.environment.get("torch"), report.environment.get("gpu")
    if when.fuser and fuser not in when.fuser:
        return f"it is for {' or '.join(when.fuser)}, and the fuser is {fuser or 'unknown'}"
    if when.torch is not None and (torch is None or not version_fits(torch, when.torch)):
        return f"it is for torch {when.torch}, and torch is {torch or 'unknown'}"
    if when.gpu and not any(part.lower() in (gpu or "").lower() for part in when.gpu):
        return f"it is for {' or '.join(when.gpu)}, and the GPU is {gpu or 'unknown'}"
    name = str(report.target.get("name") or "")
    if when.target and not any(path_ends_with(name, end) for end in when.target):
        return f"it is for {' or '.join(when.target)}, and the model is {name or 'unknown'}"
    return None


def version_fits(version: str, wanted: str) -> bool:
    """Whether a version (``2.1.2+cu121``) is in what is wanted (``>=1.12, <2.2``; ``2.1`` is every 2.1.x).

    Compared as pip does, by the numbers before the first letter or plus sign: ``<=2.1`` leaves out 2.1.2.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        return False
    return all(_fits(_numbers(match.group(1)), part.strip()) for part in wanted.split(","))


def _fits(version: tuple[int, ...], part: str) -> bool:
    match = _PART.match(part)
    if match is None:
        return False
    sign, limit = match.group(1) or "==", _numbers(match.group(2))
    if sign in ("==", "!="):
        return (_padded(version, len(limit))[: len(limit)] == limit) == (sign == "==")
    size = max(len(version), len(limit))
    a, b = _padded(version, size), _padded(limit, size)
    return {">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[sign]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _padded(version: tuple[int, ...], size: int) -> tuple[int, ...]:
    return version + (0,) * (size - len(version))
