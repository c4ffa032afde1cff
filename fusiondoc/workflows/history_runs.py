"""The runs of a history: read from files and branches of lines
(``model/run_lines.py``), and from saved reports, captures and logs."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.history_answers import NotRead
from fusiondoc.model.run_lines import HOLDS, SCHEMA, GroupLine, OutsideLine, RunLine
from fusiondoc.model.typed_fields import json_within, read_object, sound
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.git_files import git
from fusiondoc.workflows.lines_of_runs import outside_of
from fusiondoc.workflows.survey_facts import SurveyedRun, facts_of
from fusiondoc.workflows.survey_listing import listed

ENDING = ".jsonl"
BRANCH = "branch:"
IN_BRANCH = "history.jsonl"
"""The name of the file in a branch."""
_MOST_OF_A_LINE = 64 << 20
"""Most bytes of a line: a run with 100,000 groups has 30 MB."""


@dataclass(frozen=True)
class ReadRuns:
    """The runs of some sources, and the lines and files that could not be read as
    runs."""

    runs: tuple[RunLine, ...]
    unreadable: tuple[NotRead, ...] = ()


def read_runs(sources: Sequence[str], folder: Path) -> ReadRuns:
    """The runs of files of lines (``.jsonl``), of branches (``branch:NAME``), and
    of reports, captures, logs and folders of all these.

    Args:
        folder: a folder of the repository that has the branches.

    Raises:
        UsageError: there is no such file or branch.
        CannotRun: a package for an address is missing.
    """
    texts: dict[str, Iterable[bytes]] = {}
    reports: list[str] = []
    for source in sources:
        if source.startswith(BRANCH):
            texts[source] = _of_branch(source[len(BRANCH) :], folder).split(b"\n")
        elif source.endswith(ENDING):
            texts[source] = _of_file(Path(source))
        else:
            reports.append(source)
            for file in sorted(Path(source).rglob(f"*{ENDING}")):
                if not file.with_name(
                    "request.json"
                ).exists():  # else it is the record of a capture
                    texts[str(file)] = _of_file(file)
    runs: list[RunLine] = []
    unreadable: list[NotRead] = []
    reader = _Reader()
    for name, lines in texts.items():
        _add_lines(name, lines, reader, runs, unreadable)
    if reports:
        _add_reports(reports, runs, unreadable)
    return ReadRuns(tuple(runs), tuple(unreadable))


def _of_branch(name: str, folder: Path) -> bytes:
    for where in ("refs/heads", "refs/remotes/origin"):
        data = git(folder, "cat-file", "blob", f"{where}/{name}:{IN_BRANCH}")
        if data is not None:
            return data
    raise UsageError(
        f"{BRANCH}{name}: this repository has no branch {name} with a file {IN_BRANCH}",
        f"Fetch it: git fetch origin {name}; or begin one: docs/commands/history.md",
    )


def _of_file(file: Path) -> Iterator[bytes]:
    try:
        with open_regular(file) as opened:
            while line := opened.readline(_MOST_OF_A_LINE + 1):
                if len(line) > _MOST_OF_A_LINE:
                    raise OSError(
                        errno.EFBIG,
                        f"a line is larger than {_MOST_OF_A_LINE >> 20} MiB",
                    )
                yield line
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}",
            "fusiondoc check --history FILE.jsonl writes one.",
        ) from None


def _add_lines(
    name: str,
    lines: Iterable[bytes],
    reader: _Reader,
    runs: list[RunLine],
    unreadable: list[NotRead],
) -> None:
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        run = reader.run_of(text)
        if run is None or _DATE.match(run.date) is None:
            unreadable.append(
                NotRead(f"{name}:{number}", f"it is no whole line of {SCHEMA}")
            )
        else:
            runs.append(run)


@dataclass(frozen=True)
class _Plan:
    """The part of a line that is the same in most runs of a model."""

    groups: tuple[GroupLine, ...] = ()
    outside: tuple[OutsideLine, ...] = ()


class _Reader:
    """Converts lines to runs. A plan that occurred in an earlier line is not read
    again: its runs share one object."""

    def __init__(self) -> None:
        self._plans: dict[bytes, _Plan] = {}

    def run_of(self, text: bytes) -> RunLine | None:
        """The run of a line; None if it is damaged or of another schema."""
        try:
            return self._run_of(json_within(text))
        except (ValueError, RecursionError):
            return None

    def _run_of(self, content: Any) -> RunLine | None:
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            return None
        plan = self._plan_of(
            {name: content.pop(name, None) for name in ("groups", "outside")}
        )
        run = read_object(RunLine, sound(content))
        if run is None:
            return None
        return replace(run, groups=plan.groups, outside=plan.outside)

    def _plan_of(self, content: dict[str, Any]) -> _Plan:
        key = sha256(repr(content).encode("utf-8", "replace")).digest()
        if key not in self._plans:
            self._plans[key] = read_object(_Plan, sound(content)) or _Plan()
        return self._plans[key]


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _add_reports(
    names: Sequence[str], runs: list[RunLine], unreadable: list[NotRead]
) -> None:
    listing = listed(names)
    for item in listing.items:
        try:
            facts = facts_of(item)
        except Exception as error:  # a damaged file never ends the others
            why = (
                getattr(error, "message", None)
                or f"{type(error).__name__}: {error}"
            )
            unreadable.append(NotRead(item.name, " ".join(str(why).split())[:300]))
            continue
        if facts.row.date is None:
            unreadable.append(
                NotRead(item.name, "neither its capture nor its path has a date")
            )
        else:
            runs.append(_line_of_facts(facts, facts.row.date))
    unreadable += (NotRead(closed.run, closed.why) for closed in listing.closed)


def _line_of_facts(facts: SurveyedRun, day: str) -> RunLine:
    """Return the line of a report that was read in part. Its time of day is the
    local time in the name of its capture."""
    row, plan = facts.row, facts.plan
    return RunLine(
        schema=SCHEMA,
        model=row.model or "-",
        date=f"{day}T{facts.time}" if facts.time is not None else day,
        commit=row.commit,
        status=HOLDS,
        torch=row.torch,
        device=row.gpu or "cpu",
        fuser=row.fuser,
        host=row.host,
        groups=tuple(_groups(facts)),
        operators=row.operators,
        coverage=row.coverage,
        fallbacks=row.fallbacks,
        unfused_bytes=row.unfused_bytes,
        ms=row.step_ms,
        outside=outside_of(plan),
        settings=row.settings,
        fusiondoc=row.fusiondoc,
        backward=plan.backward,
        ended_early=plan.ended_early,
    )


def _groups(facts: SurveyedRun) -> Iterator[GroupLine]:
    for group in facts.plan.groups:
        yield GroupLine(
            group.key.phase, group.key.ops, group.key.source_lines, group.instances
        )
