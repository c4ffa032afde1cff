"""The runs of a history: read from files and branches of lines (``model/run_lines.py``), and from saved
reports, captures and logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.history_answers import NotRead
from fusiondoc.model.run_lines import HOLDS, SCHEMA, GroupLine, RunLine
from fusiondoc.model.typed_fields import object_of, read_object
from fusiondoc.whole_files import read_within
from fusiondoc.workflows.git_files import git
from fusiondoc.workflows.lines_of_runs import outside_of
from fusiondoc.workflows.survey_facts import RunFacts, facts_of
from fusiondoc.workflows.survey_listing import listed

ENDING = ".jsonl"
BRANCH = "branch:"
IN_BRANCH = "history.jsonl"
"""The file in a branch."""
_MOST_BYTES = 256 << 20
"""Of a file of lines: some 100,000 runs of models with twenty groups."""


@dataclass(frozen=True)
class ReadRuns:
    """The runs of some sources, and the lines and files that are none."""

    runs: tuple[RunLine, ...]
    unreadable: tuple[NotRead, ...] = ()


def read_runs(sources: Sequence[str], folder: Path) -> ReadRuns:
    """The runs of files of lines (``.jsonl``), of branches (``branch:NAME``), and of reports, captures, logs
    and folders of all these.

    Args:
        folder: a folder of the repository that has the branches.

    Raises:
        UsageError: there is no such file or branch.
        CannotRun: a package for an address is missing.
    """
    texts: dict[str, bytes] = {}
    reports: list[str] = []
    for source in sources:
        if source.startswith(BRANCH):
            texts[source] = _of_branch(source[len(BRANCH) :], folder)
        elif source.endswith(ENDING):
            texts[source] = _of_file(Path(source))
        else:
            reports.append(source)
            for file in sorted(Path(source).rglob(f"*{ENDING}")):
                if not file.with_name("request.json").exists():  # else it is the record of a capture
                    texts[str(file)] = _of_file(file)
    runs: list[RunLine] = []
    unreadable: list[NotRead] = []
    for name, data in texts.items():
        _add_lines(name, data, runs, unreadable)
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


def _of_file(file: Path) -> bytes:
    try:
        return read_within(file, _MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"Cannot read {file}: {error.strerror}", "fusiondoc check --history FILE.jsonl writes one."
        ) from None


def _add_lines(name: str, data: bytes, runs: list[RunLine], unreadable: list[NotRead]) -> None:
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text.strip():
            continue
        content = object_of(text)
        run = read_object(RunLine, content) if content.get("schema") == SCHEMA else None
        if run is None or _DATE.match(run.date) is None:
            unreadable.append(NotRead(f"{name}:{number}", f"it is no whole line of {SCHEMA}"))
        else:
            runs.append(run)


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _add_reports(names: Sequence[str], runs: list[RunLine], unreadable: list[NotRead]) -> None:
    listing = listed(names)
    for item in listing.items:
        try:
            facts = facts_of(item)
        except Exception as error:  # a damaged file never ends the others
            why = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            unreadable.append(NotRead(item.name, " ".join(str(why).split())[:300]))
            continue
        if facts.row.date is None:
            unreadable.append(NotRead(item.name, "neither its capture nor its path has a date"))
        else:
            runs.append(_line_of_facts(facts, facts.row.date))
    unreadable += (NotRead(closed.run, closed.why) for closed in listing.closed)


def _line_of_facts(facts: RunFacts, day: str) -> RunLine:
    """The line of a report that was read in part. Its time of day is the local one in the name of its
    capture."""
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


def _groups(facts: RunFacts) -> Iterator[GroupLine]:
    for group in facts.plan.groups:
        yield GroupLine(group.key.phase, group.key.ops, group.key.source_lines, group.instances)
