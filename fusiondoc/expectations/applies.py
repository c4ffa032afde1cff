"""Decides to which runs a section of expectations applies."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusiondoc.expectations import Expectations, ExpectationSection, When
from fusiondoc.model.report import Report
from fusiondoc.model.source import Target, path_ends_with
from fusiondoc.numbers import all_whole

_PART = re.compile(r"(>=|<=|==|!=|>|<)?\s*(\d+(?:\.\d+)*)\Z")


def applying(
    expectations: Expectations, report: Report
) -> list[ExpectationSection]:
    """The sections that apply to the run of the report."""
    sections = []
    for section in expectations.sections:
        if why_not(section.when, report) is None:
            sections.append(section)
    return sections


def why_not(when: When, report: Report) -> str | None:
    """Return why a section does not apply to this run; None if it does.

    A fact that a plain log does not hold (its torch, its GPU) counts as different:
    a gate must not guess.
    """
    torch, gpu = report.environment.get("torch"), report.environment.get("gpu")
    if when.fuser and report.fuser.effective not in when.fuser:
        return _is_for(when.fuser, "fuser", report.fuser.effective)
    if when.torch is not None and (
        torch is None or not version_fits(torch, when.torch)
    ):
        return f"it is for torch {when.torch}, and torch is {torch or 'unknown'}"
    if when.gpu and not _is_part_of(when.gpu, gpu or ""):
        return _is_for(when.gpu, "GPU", gpu)
    if when.target and not _is_target(when.target, report.target):
        return _is_for(when.target, "model", report.target.name)
    return None


def _is_for(wanted: Sequence[str], what: str, found: str | None) -> str:
    return (
        f"it is for {' or '.join(wanted)}, and the {what} is {found or 'unknown'}"
    )


def _is_part_of(parts: Sequence[str], text: str) -> bool:
    return any(part.lower() in text.lower() for part in parts)


def _is_target(ends: Sequence[str], target: Target) -> bool:
    """True if a target's path ends with one of the names, relative to the folder of
    the run, which may be inside the folder to which the file's names are
    relative."""
    name = target.name or ""
    path = f"{target.folder}/{name}" if target.folder and name else name
    return any(path_ends_with(path, end) for end in ends)


def version_fits(version: str, wanted: str) -> bool:
    """True if a version (``2.1.2+cu121``) is in the wanted range (``>=1.12, <2.2``;
    ``2.1`` is every 2.1.x).

    Compared as pip does, by the numbers before the first letter or plus sign:
    ``<=2.1`` leaves out 2.1.2.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        return False
    numbers = all_whole(match.group(1).split("."))
    return numbers is not None and all(
        _fits(numbers, part.strip()) for part in wanted.split(",")
    )


def _fits(version: tuple[int, ...], part: str) -> bool:
    match = _PART.match(part)
    limit = all_whole(match.group(2).split(".")) if match is not None else None
    if match is None or limit is None:
        return False
    sign = match.group(1) or "=="
    if sign in ("==", "!="):
        return (_padded(version, len(limit))[: len(limit)] == limit) == (
            sign == "=="
        )
    size = max(len(version), len(limit))
    a, b = _padded(version, size), _padded(limit, size)
    return {">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[sign]


def _padded(version: tuple[int, ...], size: int) -> tuple[int, ...]:
    return version + (0,) * (size - len(version))
