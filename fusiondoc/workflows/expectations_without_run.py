"""Errors in a file of expectations that can be found without a run: ``check
--file-only``."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from fusiondoc.captures import FOLDER
from fusiondoc.errors import UsageError
from fusiondoc.expectations import Expectations, ExpectationSection
from fusiondoc.model import count
from fusiondoc.workflows.check_jobs import parsed_target, target_of
from fusiondoc.workflows.git_files import git


def problems_without_run(
    expectations: Expectations, sections: Sequence[ExpectationSection]
) -> list[str]:
    """A sentence for each target that does not exist, each pattern that matches no
    file, and the captures that git tracks."""
    found: list[str] = []
    for section in sections:
        found.extend(_of_section(section, expectations.file))
    return [*found, *_tracked_captures(Path(expectations.file).absolute().parent)]


def _of_section(section: ExpectationSection, file: str) -> Iterator[str]:
    line = f"{file}:{section.at.line}: {section.name}"
    target = target_of(section)
    if target is not None:
        try:
            parsed_target(target, Path(file))
        except UsageError as error:
            yield f"{line}: {error.in_one_line}"
    for pattern in section.run.files:
        if not glob.glob(pattern, recursive=True):  # noqa: PTH207 - absolute patterns too
            yield f"{line}: no file fits '{pattern}'"


def _tracked_captures(folder: Path) -> Iterator[str]:
    """A sentence on captures that git tracks: they hold logs, sources and variables
    of a run, and are meant for their machine only."""
    listed = git(folder, "ls-files", "-z") or b""
    paths = []
    for name in listed.split(b"\0"):
        if name:
            paths.append(os.fsdecode(name))
    captures = [path for path in paths if FOLDER in PurePosixPath(path).parts]
    if captures:
        number = count(len(captures), "file")
        yield f"{number} of captures tracked by git, such as {captures[0]}: git rm -r --cached {FOLDER}"
