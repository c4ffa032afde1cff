"""The sections that apply to a run; and a model that has another name now,
recognised by its groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.expectations import Expectations, ExpectationSection, Renamed
from fusiondoc.expectations.applies import applying, why_not
from fusiondoc.expectations.match import check
from fusiondoc.expectations.moved import alike
from fusiondoc.model.report import Report
from fusiondoc.model.source import path_ends_with
from fusiondoc.whole_files import read_within


def sections_for(
    expectations: Expectations, report: Report
) -> list[ExpectationSection]:
    """Return the sections that apply to the run. If there are none: those of a
    target that no longer exists and whose groups are those of this run, each with
    ``renamed``. Empty where nothing shows it, or more than one target fits as well.
    """
    return applying(expectations, report) or _of_renamed(expectations, report)


_Fit = tuple[bool, float]
"""Whether every group of the sections is in the run, and the share of equal groups,
from 0 to 1."""

_LEAST_ALIKE = 0.5
"""Least share of equal groups with which a model of another name counts as the
renamed one, as ``compare`` does with files by their lines."""


def _of_renamed(
    expectations: Expectations, report: Report
) -> list[ExpectationSection]:
    new = report.target.name
    if not new or report.target.capture is None:
        return []  # the name of a log is that of no model
    targets: dict[str, list[ExpectationSection]] = {}
    for section in expectations.sections:
        if (
            section.when.target
            and why_not(replace(section.when, target=()), report) is None
        ):
            gone = []
            for name in section.when.target:
                if not _exists(name, expectations, report):
                    gone.append(name)
            if len(gone) == 1:
                renamed = _under(section, Renamed(gone[0], new))
                targets.setdefault(gone[0], []).append(renamed)
    fits = {old: _fit(sections, report) for old, sections in targets.items()}
    best = max(fits.values(), default=(False, 0.0))
    found = [old for old, fit in fits.items() if fit == best]
    if len(found) != 1 or not (best[0] or best[1] > _LEAST_ALIKE):
        return []
    return targets[found[0]]


def _under(section: ExpectationSection, renamed: Renamed) -> ExpectationSection:
    """The section for the model's new name; lines that it names are then in the new
    file."""
    old, new = _file(renamed.old), _file(renamed.new)
    groups = []
    for group in section.groups:
        sources = []
        for source in group.source:
            is_old = bool(old) and path_ends_with(old, source.file)
            sources.append(replace(source, file=new) if is_old else source)
        groups.append(replace(group, source=tuple(sources)))
    return replace(section, groups=tuple(groups), renamed=renamed)


def _fit(sections: Sequence[ExpectationSection], report: Report) -> _Fit:
    groups = []
    for section in sections:
        for group in section.groups:
            if group.ops:
                groups.append(group)
    holds = bool(groups) and all(
        outcome.holds
        for section in sections
        for outcome in check(section, report)
        if outcome.path[len(section.path) : len(section.path) + 1] == ("groups",)
    )
    return holds, max((alike(section, report) for section in sections), default=0.0)


_TARGET = re.compile(
    r"(?P<file>.+\.(?:py|pt|pth|ts))(?::(?P<name>\w+))?\Z|(?P<module>[\w.]+)(?::(?P<of>\w+))?\Z"
)
"""``model.py``, ``model.py:block``, ``model.pt``, ``package.module:block``."""


def _file(target: str) -> str:
    """The file of a target, as far as its name shows it; "" if it does not."""
    match = _TARGET.match(target)
    if match is None:
        return ""
    return match["file"] or match["module"].replace(".", "/") + ".py"


def _exists(target: str, expectations: Expectations, report: Report) -> bool:
    """True if the target of a section still exists, relative to the current folder,
    to the file of expectations or to the folder of the run."""
    match = _TARGET.match(target)
    name = (match["name"] or match["of"]) if match is not None else None
    file = _file(target) or target
    for path in _paths(file, expectations, report):
        if not path.exists():
            continue
        if name is None or not path.is_file() or path.suffix != ".py":
            return True
        try:
            return (
                re.search(
                    rf"\b{re.escape(name)}\b",
                    read_within(path).decode("utf-8", "replace"),
                )
                is not None
            )
        except (OSError, ValueError):
            return True
    return False


def _paths(file: str, expectations: Expectations, report: Report) -> Iterator[Path]:
    """Possible paths of a file that is named by the end of its path."""
    folders = [Path.cwd(), Path(expectations.file).resolve().parent]
    if report.target.folder:
        folders.append(Path(report.target.folder))
    parts = Path(file).parts
    for folder in dict.fromkeys(folders):
        yield folder / file
        for above in (folder, *folder.parents):
            if parts and above.name == parts[0]:
                yield above.parent / file
    package = Path(file).with_suffix("") / "__init__.py"
    for folder in dict.fromkeys(folders):
        yield folder / package
