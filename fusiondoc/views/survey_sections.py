"""A survey as sections: groups that some runs lost, groups that only some runs
have, why operators are in no group, and kernels that are slow in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.survey_answers import (
    MOST_SLOWEST,
    GroupShare,
    Outlier,
    ReasonShare,
    Survey,
)
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    Formats,
    NamedValues,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.units import milliseconds, percent, seconds, size
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Factor,
    Millis,
    Share,
    Text,
)
from fusiondoc.views import losses_in_words

MOST_NARROW = 8
"""Most rows of a table on a terminal."""
MOST_WIDE = 500
"""Most rows of a table on a page."""


def survey_document(survey: Survey, most: int) -> Document:
    """The answers, each with at most ``most`` rows."""
    facts = tuple(read(survey))
    lead = ", ".join(value for name, value in facts if name in ("Read", "From"))
    sections = (
        Section(
            "read",
            "What was read",
            blocks=(NamedValues(facts),),
            formats=Formats.PAGE,
        ),
        _gone(survey, most),
        _groups(survey, most),
        _reasons(survey, most),
        _outliers(survey, most),
        _files(
            "unreadable",
            "Not read",
            [(row.run, row.why) for row in survey.unreadable[:most]],
        ),
        _files(
            "duplicates",
            "Copies",
            [(row.run, row.same_as) for row in survey.duplicates[:most]],
        ),
    )
    return Document("survey", "survey", verdict(survey), lead, facts, sections)


def verdict(survey: Survey) -> str:
    """Return the whole survey in a sentence."""
    text = (
        f"{count(len(survey.runs), 'run')} of {count(len(survey.models), 'model')}"
    )
    gone: set[str] = set()
    for one in survey.gone:
        gone.update(one.groups)
    text += f": {count(len(survey.groups), 'group')}, {len(gone)} of them gone"
    if survey.moved:
        text += f", {survey.moved:,} moved to other lines"
    slow = len(survey.outliers) + survey.outliers_left_out
    return text + (f", {count(slow, 'slow kernel')}" if slow else "")


def read(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield names and values on the files that were read, and on those that were
    not."""
    work = survey.work
    by = f"{work.engine} engine" + (
        f", {count(work.workers, 'worker')}" if work.workers else ""
    )
    yield (
        "Read",
        f"{count(len(survey.runs), 'run')} in {seconds(work.seconds)} ({by})",
    )
    dates = []
    for row in survey.runs:
        if row.date is not None:
            dates.append(row.date)
    dates.sort()
    if dates:
        yield "From", f"{dates[0]} to {dates[-1]}"
    if survey.since is not None:
        later = count(sum(map(survey.counts, survey.runs)), "run")
        yield (
            "Since",
            f"{survey.since} ({later}): what is gone, and which kernels are slow",
        )
    yield from _machines(survey)
    nameless = sum(row.model is None for row in survey.runs)
    if nameless > 1:
        how = "do not name their model and count as one; --model-from takes it from their paths"
        yield "Model", f"{nameless:,} runs {how}"
    if survey.duplicates:
        files = count(len(survey.duplicates), "file")
        yield (
            "Same",
            f"{files} with the content of another, first {survey.duplicates[0].run}",
        )
    if survey.unreadable:
        worst = survey.unreadable[0]
        yield (
            "Not read",
            f"{count(len(survey.unreadable), 'file')}, first {worst.run}: {worst.why}",
        )
    if survey.ignored:
        yield (
            "Ignored",
            f"{count(survey.ignored, 'file')}, by name neither report nor log",
        )
    if work.lost_workers:
        died = count(work.lost_workers, "worker")
        yield (
            "Lost",
            f"{died} died; other workers read their files, or these are listed as not read",
        )


def _machines(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield the versions and GPUs of the runs, each with its number of runs."""
    for name, title in (("torch", "Torch"), ("gpu", "GPUs"), ("driver", "Drivers")):
        counts: Counter[str] = Counter()
        for row in survey.runs:
            if (value := getattr(row, name)) is not None:
                counts[value] += 1
        if counts:
            yield (
                title,
                ", ".join(f"{value} ({counts[value]})" for value in sorted(counts)),
            )


def _files(key: str, title: str, rows: Sequence[tuple[str, str]]) -> Section:
    """Section of files by name; a terminal shows their number in the first
    lines."""
    return Section(
        key, title, blocks=(NamedValues(tuple(rows)),), formats=Formats.PAGE
    )


def _gone(survey: Survey, most: int) -> Section:
    rows = []
    for loss in survey.gone[:most]:
        rows.append(
            Row(
                losses_in_words.cells(loss),
                narrow=(
                    losses_in_words.title(loss),
                    losses_in_words.sentence(loss),
                ),
            )
        )
    note = "fewer runs have it since; one row a loss"
    return _answer(
        "gone", "Gone", note, losses_in_words.COLUMNS, tuple(rows), len(survey.gone)
    )


def _groups(survey: Survey, most: int) -> Section:
    partial = [one for one in survey.groups if one.share < 1]
    note = (
        f"{len(survey.groups) - len(partial)} more are in all runs of their model"
    )
    columns = (
        Column("group"),
        Column("model"),
        Column("runs", number=True),
        Column("share", number=True),
        Column("fell back", number=True),
    )
    rows = tuple(_group_row(one) for one in partial[:most])
    return _answer(
        "groups", "Groups in some runs only", note, columns, rows, len(partial)
    )


def _group_row(one: GroupShare) -> Row:
    name = _group(one)
    sentence = f"in {one.runs:,} of {count(one.runs_of_model, 'run')} ({percent(one.share)})"
    if one.fell_back:
        sentence += f", fell back in {one.fell_back:,}"
    cells = (
        Text(name),
        Text(one.model or "-"),
        Text(f"{one.runs:,} of {one.runs_of_model:,}"),
        Share(one.share),
        Count(one.fell_back),
    )
    return Row(
        cells, narrow=(f"{name} ({one.model})" if one.model else name, sentence)
    )


def _group(one: GroupShare) -> str:
    """``mul, add, gelu at model.py:9``."""
    names = [op.rpartition("::")[2] for op in one.ops]
    text = ", ".join(names[:5]) + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )
    own = [line for line in one.places if not line.startswith("<string>")] or list(
        one.places
    )
    return (
        text
        + (" (backward)" if one.phase == "backward" else "")
        + (f" at {own[0]}" if own else "")
    )


def _reasons(survey: Survey, most: int) -> Section:
    by_time = any(one.ms for one in survey.reasons)
    cost = "time of a profiled step" if by_time else "memory traffic"
    columns = (
        Column("code"),
        Column("operator"),
        Column("runs", number=True),
        Column("nodes", number=True),
        Column("bytes", number=True),
        Column("ms", number=True),
        Column("why"),
    )
    rows = tuple(_reason_row(one, by_time) for one in survey.reasons[:most])
    title = "Why operators are in no group"
    return _answer(
        "reasons", title, f"by {cost}", columns, rows, len(survey.reasons)
    )


def _reason_row(one: ReasonShare, by_time: bool) -> Row:
    sentence = f"in {count(one.runs, 'run')}, {count(one.nodes, 'node')}"
    if one.ms:
        sentence += f", {milliseconds(one.ms)}"
    if one.bytes:
        sentence += f", {size(one.bytes)}"
    cells = (
        Text(one.code),
        Text(one.op),
        Count(one.runs),
        Count(one.nodes),
        Bytes(one.bytes),
        Millis(one.ms if by_time else None),
        Text(one.text),
    )
    return Row(cells, narrow=(f"{one.code} {one.op}", f"{sentence}: {one.text}"))


def _outliers(survey: Survey, most: int) -> Section:
    note = "against the median of that kernel on that GPU"
    left = survey.outliers_left_out
    if left:
        note += (
            f"; the {MOST_SLOWEST} slowest runs of each, {left:,} more are left out"
        )
    columns = (
        Column("kernel"),
        Column("run"),
        Column("GPU"),
        Column("ms", number=True),
        Column("median", number=True),
        Column("times", number=True),
    )
    rows = tuple(_outlier_row(one) for one in survey.outliers[:most])
    title = "Kernels that are slow in one run"
    return _answer("outliers", title, note, columns, rows, len(survey.outliers))


def _outlier_row(one: Outlier) -> Row:
    cells: tuple[Cell, ...] = (
        Text(one.kernel),
        Text(one.run),
        Text(one.gpu or "-"),
        Millis(one.ms),
        Millis(one.median_ms),
        Factor(one.ratio),
    )
    against = f"{milliseconds(one.ms)} against {milliseconds(one.median_ms)}"
    sentence = f"{one.ratio:.1f} times the median of {count(one.runs, 'run')} ({against}): {one.run}"
    return Row(cells, narrow=(one.kernel, sentence))


def _answer(
    key: str,
    title: str,
    note: str,
    columns: tuple[Column, ...],
    rows: tuple[Row, ...],
    total: int,
) -> Section:
    return Section(
        key, title, note, (Table(columns, rows, left_out=total - len(rows)),)
    )
