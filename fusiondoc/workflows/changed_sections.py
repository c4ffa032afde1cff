"""Which runs of a check may have another result than at a commit: ``check
--changed-since``.

A run is left out only if everything it depends on in the repository is known and
unchanged: its section and the limits for all models, the files that its program
names (``program_files.py``), the files that an earlier run of it opened, and the
files that list the installed packages.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import FusiondocError
from fusiondoc.expectations import Expectations, ExpectationSection, yaml_text
from fusiondoc.expectations import Path as PathInFile
from fusiondoc.expectations.policy import is_for
from fusiondoc.model import count, dataclass
from fusiondoc.whole_files import read_within
from fusiondoc.workflows.check_cache import CheckCache
from fusiondoc.workflows.check_jobs import Job
from fusiondoc.workflows.program_files import FilesOfPrograms, ProgramFiles
from fusiondoc.workflows.program_names import Imported, texts_in_call
from fusiondoc.workflows.repository_since import repository_since

_INSTALLS = re.compile(
    r"((requirements|constraints|environment|conda)[\w.-]*\.(txt|in|ya?ml)|pyproject\.toml|setup\.(py|cfg)|"
    r"[\w.-]+\.lock|Pipfile|\.python-version|(Dockerfile|Containerfile)[\w.-]*|fusiondoc\.ya?ml)\Z"
)
"""Files that list installed packages, and the configuration of fusiondoc."""


@dataclass(frozen=True)
class Standing:
    """Whether a run is needed, and why."""

    needed: bool
    why: str | None
    """None if there is no commit to compare with."""


class ChangedSections:
    """The changes since a commit, for the sections of a file of expectations.

    Args:
        rev: a commit in any form that git accepts.
        cache: kept results, which list the files that earlier runs opened; or None.
        today: the day on which exceptions end.

    Raises:
        UsageError: there is no such commit.
    """

    def __init__(
        self,
        rev: str,
        expectations: Expectations,
        cache: CheckCache | None,
        today: date,
    ) -> None:
        file = Path(expectations.file).absolute()
        self._repository = repository_since(file.parent, rev)
        self._expectations = expectations
        self._cache = cache
        self._today = today
        self._programs = FilesOfPrograms(self._repository, Path.cwd())
        self._file = self._repository.path_in(file)
        self._sections, self._policy = _parts_of(
            self._repository.text_before(self._file or "")
        )
        self._now, policy = _parts_of(_content_of(file))
        self._everything = next(self._for_everything(policy), None)

    @property
    def commit(self) -> str:
        """The first digits of the commit."""
        return self._repository.commit

    def standing(self, job: Job) -> Standing:
        """Whether a run is needed."""
        files = self._files(job)
        why = (
            self._everything
            or next(filter(None, map(self._of_section, job.sections)), None)
            or next(
                (
                    _changed(path)
                    for path in sorted(files.files)
                    if self._repository.changed(path)
                ),
                None,
            )
            or files.unknown
        )
        if why is not None:
            return Standing(True, why)
        return Standing(
            False, f"{count(len(files.files), 'file')} as at {self.commit}"
        )

    def _for_everything(self, policy: str | None) -> Iterator[str]:
        """Yield the reasons why all runs are needed; none if they are not."""
        if self._file is None or self._sections is None:
            yield f"{self._expectations.file} is new"
        elif policy != self._policy:
            yield f"{self._expectations.file}: the limits for all models changed"
        named = []
        for path in self._repository.known:
            if _INSTALLS.match(PurePosixPath(path).name):
                named.append(path)
        for path in sorted(named):
            if self._repository.changed(path):
                yield _changed(path)

    def _of_section(self, section: ExpectationSection) -> str | None:
        """Return why a section has to be checked again; None if it need not."""
        now = (self._now or {}).get(section.path)
        if now is None or now not in (self._sections or {}).values():
            return f"{self._expectations.file}:{section.at.line} changed"
        policy = self._expectations.policy
        for exception in policy.exceptions if policy is not None else ():
            if exception.until < self._today and is_for(exception, section.name):
                return f"its exception ended on {exception.until}"
        return None

    def _files(self, job: Job) -> ProgramFiles:
        """The files that a run depends on."""
        request, target = job.request, job.request.target
        path = None
        if target.path is not None:
            path = self._repository.path_in(target.path)
        if target.path is not None and path is None:
            return ProgramFiles(
                frozenset(), f"{target.path} is not in the repository"
            )
        texts = (
            *request.inputs,
            *request.script_args,
            *texts_in_call(target.call or "()"),
        )
        found = self._programs.of(
            [path] if path is not None else [], list(_modules(request)), texts
        )
        if target.path is None and not any(
            path.endswith(".py") for path in found.files
        ):
            return ProgramFiles(
                frozenset(), f"module {target.module} is not in the repository"
            )
        more = {*self._matching(job), *self._opened_before(job)}
        foreign = min(more - self._repository.known, default=None)
        unknown = found.unknown or (
            f"{foreign} is unknown to git" if foreign is not None else None
        )
        return ProgramFiles(found.files | (more & self._repository.known), unknown)

    def _matching(self, job: Job) -> Iterator[str]:
        """The files of the section's patterns, now and at the commit."""
        for pattern in job.files:
            for name in glob.glob(pattern, recursive=True):  # noqa: PTH207 - absolute patterns too
                if Path(name).is_file():
                    yield self._repository.path_in(Path(name).absolute()) or name
            whole = self._repository.path_in(
                Path(os.path.normpath(job.request.cwd / pattern))
            )
            for one in self._repository.before:
                if whole and fnmatchcase(one, whole):
                    yield one

    def _opened_before(self, job: Job) -> Iterator[str]:
        """The files of the repository that a kept result of this run lists."""
        try:
            names = (
                self._cache.files_of(job.request) if self._cache is not None else ()
            )
        except FusiondocError:
            return
        for name in names:
            path = self._repository.path_in(Path(name))
            if path is not None and (
                path in self._repository.known or Path(name).exists()
            ):
                yield path


def _modules(request: RunRequest) -> Iterator[Imported]:
    """Modules that the request names: of its target and of its step function."""
    for name in (request.target.module, request.step_function):
        if name is not None:
            yield Imported(0, name.replace(":", "."))


def _changed(path: str) -> str:
    return f"{path} changed"


def _content_of(file: Path) -> bytes | None:
    """The content of a file; None if it cannot be read."""
    try:
        return read_within(file)
    except OSError:
        return None


def _parts_of(
    data: bytes | None,
) -> tuple[Mapping[PathInFile, str] | None, str | None]:
    """Return the sections of a file of expectations by their path, and the limits
    for all models, as canonical YAML, which leaves out comments and positions."""
    try:
        root = None
        if data is not None:
            root = yaml_text.compose(data.decode("utf-8-sig"), "")
    except (UnicodeDecodeError, FusiondocError):
        root = None
    if root is None:
        return None, None
    several = None
    if isinstance(root, yaml.MappingNode):
        several = yaml_text.at(root, ("sections",))
    if not isinstance(several, yaml.SequenceNode):
        return {(): _canonical(root)}, None
    policy = yaml_text.at(root, ("all",))
    sections: dict[PathInFile, str] = {}
    for index, node in enumerate(several.value):
        sections["sections", index] = _canonical(node)
    return sections, _canonical(policy) if policy is not None else None


def _canonical(node: Any) -> str:
    return str(yaml.serialize(node, canonical=True))
