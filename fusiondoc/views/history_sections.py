"""A history as sections: the models with their figures over time, the lost groups,
and lasting changes of coverage and step time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.history_answers import History, LostGroup, ModelHistory, Move
from fusiondoc.model.run_lines import BROKEN, FAILED, RunLine
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Document,
    Formats,
    Heading,
    NamedValues,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.picture_blocks import Moment, Timeline, Timelines
from fusiondoc.rendering.units import digits, percent
from fusiondoc.rendering.values import (
    Cell,
    Count,
    Millis,
    Share,
    Sparkline,
    Status,
    Text,
    Tone,
)

MOST_NARROW = 12
"""Most rows of a table on a terminal."""
MOST_WIDE = 500
"""Most rows of a table on a page."""
MOST_PLOTTED = 100
"""Most models with plots on a page."""
_COMMIT = 9
"""Digits of a commit that are shown."""


def history_document(history: History, most: int) -> Document:
    """The histories, each table with at most ``most`` rows."""
    facts = tuple(_facts(history))
    lead = ", ".join(value for name, value in facts if name in ("Read", "From"))
    name = history.models[0].model if len(history.models) == 1 else None
    sections = (
        _broken(history, most),
        _lost(history, most),
        _moves(history, most),
        _models(history, most),
        _changed_models(history),
        _plots(history),
        _not_read(history, most),
    )
    return Document(
        "history", name or "history", verdict(history), lead, facts, sections
    )


def verdict(history: History) -> str:
    """Return the whole history in a sentence."""
    lost: list[LostGroup] = []
    for model in history.models:
        lost.extend(model.lost)
    back = len(lost) - len(history.still_lost)
    moved: Counter[str] = Counter()
    for model in history.models:
        for move in model.moves:
            moved[move.what] += 1
    parts = [
        count(len(lost), "loss") + (f" ({back:,} of them back)" if back else "")
    ]
    if moved["coverage"]:
        parts.append(count(moved["coverage"], "change") + " of coverage")
    if moved["ms"]:
        parts.append(count(moved["ms"], "change") + " of step time")
    models = count(len({model.model for model in history.models}), "model")
    return f"{models}: {', '.join(parts)}{_since(history)}"


def _since(history: History) -> str:
    if history.since is None:
        return ""
    if history.since == "base":
        return " against the base"
    return f" since {history.since}"


def _facts(history: History) -> Iterator[tuple[str, str]]:
    runs: list[RunLine] = []
    for model in history.models:
        runs.extend(model.runs)
    models = {model.model for model in history.models}
    yield "Read", f"{count(len(runs), 'run')} of {count(len(models), 'model')}"
    days = sorted(run.date[:10] for run in runs)
    if days:
        yield "From", f"{days[0]} to {days[-1]}"
    commits = set()
    for run in runs:
        if run.commit is not None:
            commits.add(run.commit)
    if commits:
        yield "Commits", f"{len(commits):,}"
    if history.unreadable:
        first = history.unreadable[0]
        lines = count(len(history.unreadable), "line")
        yield "Not read", f"{lines}, first {first.source}: {first.why}"


# -- models --------------------------------------------------------------------------------------------------


def _models(history: History, most: int) -> Section:
    table = _table_of_models(history, history.models[:most], len(history.models))
    return Section(
        "models", "Models", _last_runs(), (table,), Formats.TERMINAL | Formats.PAGE
    )


def _last_runs() -> str:
    return (
        "figures of the last run; the blocks are the runs before it, oldest first"
    )


def _changed_models(history: History) -> Section:
    """Section of the models with a loss, a lasting change or a broken last run; a
    comment has no room for the others."""
    changed = []
    for model in history.models:
        if model.lost or model.moves or not _holds(model):
            changed.append(model)
    table = _table_of_models(history, changed, len(changed))
    same = len(history.models) - len(changed)
    note = ""
    if same:
        note = f"{count(same, 'further model')}: nothing lost, nothing moved"
    return Section(
        "changed", "Models with changes", note, (table,), Formats.MARKDOWN
    )


def _holds(model: ModelHistory) -> bool:
    return model.runs[-1].status not in (BROKEN, FAILED)


_MODEL_COLUMNS = (
    Column("model", cut=True),
    Column("runs", number=True, wanted=1),
    Column("groups", number=True),
    Column("coverage", number=True),
    Column("", optional=True, wanted=3),
    Column("step ms", number=True, optional=True),
    Column("", optional=True, wanted=2),
    Column("lost", number=True, optional=True),
    Column("last run", optional=True),
)


def _table_of_models(
    history: History, models: Sequence[ModelHistory], total: int
) -> Table:
    rows = tuple(_model_row(history, model) for model in models)
    return Table(_MODEL_COLUMNS, rows, caption="Models", left_out=total - len(rows))


def _model_row(history: History, model: ModelHistory) -> Row:
    last = model.runs[-1]
    lost = sum(one.back_date is None for one in model.lost)
    if _holds(model):
        status = Status("", Tone.PLAIN)
    else:
        status = Status(last.status, Tone.BAD)
    cells: tuple[Cell, ...] = (
        Text(name_of(model, history)),
        Count(len(model.runs)),
        Count(last.number_of_groups),
        Share(last.coverage),
        Sparkline(tuple(run.coverage for run in model.runs)),
        Millis(last.ms),
        Sparkline(tuple(run.ms for run in model.runs)),
        Count(lost, Tone.BAD if lost else Tone.PLAIN),
        status,
    )
    return Row(cells)


def name_of(model: ModelHistory, history: History) -> str:
    """Return the model's name, with the properties that distinguish it from other
    rows of the same model."""
    others = [other for other in history.models if other.model == model.model]
    parts = [model.model or "-"]
    for name in ("device", "fuser", "settings"):
        if len({getattr(other, name) for other in others}) > 1:
            parts.append(str(getattr(model, name) or "-"))
    return ", ".join(parts)


# -- the last runs -------------------------------------------------------------------------------------------


def _broken(history: History, most: int) -> Section:
    """Section of the expectations that the last run of each model breaks, and the
    error of a failed run."""
    found = []
    for model in history.models:
        last = model.runs[-1]
        sentences = (
            (last.error or "failed",) if last.status == FAILED else last.lost
        )
        found += [(name_of(model, history), sentence) for sentence in sentences]
    columns = (Column("model"), Column("expected and found", wide=True))
    rows = []
    for name, sentence in found[:most]:
        rows.append(Row((Text(name), Text(sentence)), narrow=(name, sentence)))
    table = Table(columns, tuple(rows), left_out=len(found) - len(rows))
    return Section(
        "broken", "Broken now", "in the last run of each model", (table,)
    )


# -- losses --------------------------------------------------------------------------------------------------


def _lost(history: History, most: int) -> Section:
    pairs = []
    for model in history.models:
        for lost in model.lost:
            pairs.append((model, lost))
    pairs.sort(key=lambda pair: pair[1].date, reverse=True)
    columns = (
        Column("group", wide=True),
        Column("model"),
        Column("lost in"),
        Column("last with it"),
        Column("why", wide=True),
        Column("back in", optional=True),
    )
    rows = tuple(_lost_row(history, model, lost) for model, lost in pairs[:most])
    note = "a run lacks what the run before it had; the cause is between the two commits"
    return Section(
        "lost",
        "Lost",
        note,
        (Table(columns, rows, left_out=len(pairs) - len(rows)),),
    )


def _lost_row(history: History, model: ModelHistory, lost: LostGroup) -> Row:
    name = name_of(model, history)
    group = group_text(lost)
    first, last = at(lost.date, lost.commit), at(lost.last_date, lost.last_commit)
    why = why_text(lost)
    back = ""
    if lost.back_date is not None:
        back = at(lost.back_date, lost.back_commit)
    sentence = f"lost in {first}, last with it {last}: {why}" + (
        f"; back in {back}" if back else ""
    )
    cells = (
        Text(group),
        Text(name),
        Text(first, Tone.BAD),
        Text(last),
        Text(why),
        Text(back),
    )
    return Row(cells, narrow=(f"{name}: {group}", sentence))


def group_text(lost: LostGroup) -> str:
    """``mul, add, relu (backward) ×2 at model.py:12``."""
    names = [op.rpartition("::")[2] for op in lost.ops]
    text = ", ".join(names[:5]) + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )
    if lost.phase == "backward":
        text += " (backward)"
    if lost.count > 1:
        text += f" ×{lost.count:,}"
    return text + (f" at {lost.at}" if lost.at is not None else "")


def why_text(lost: LostGroup) -> str:
    """Return why its operators are outside groups, and the other changes."""
    if lost.why:
        why = f"outside now: {', '.join(lost.why)}"
    else:
        why = "the program no longer has its operators"
    return why + (f" ({', '.join(lost.changed)})" if lost.changed else "")


def at(date: str, commit: str | None) -> str:
    """Return ``4f3c2a1b9 (2026-11-20)``; without a commit the day and time."""
    if commit is not None:
        return f"{commit[:_COMMIT]} ({date[:10]})"
    return date[:16].replace("T", " ")


# -- figures -------------------------------------------------------------------------------------------------


def _moves(history: History, most: int) -> Section:
    pairs = []
    for model in history.models:
        for move in model.moves:
            pairs.append((model, move))
    pairs.sort(key=lambda pair: pair[1].date, reverse=True)
    columns = (
        Column("figure"),
        Column("model"),
        Column("before", number=True),
        Column("after", number=True),
        Column("since"),
        Column("with", optional=True),
    )
    rows = tuple(_move_row(history, model, move) for model, move in pairs[:most])
    note = "coverage by run; step time where the runs before and after it are apart"
    return Section(
        "moved",
        "Moved",
        note,
        (Table(columns, rows, left_out=len(pairs) - len(rows)),),
    )


def _move_row(history: History, model: ModelHistory, move: Move) -> Row:
    name = name_of(model, history)
    is_share = move.what == "coverage"
    title = "coverage" if is_share else "step time"
    before, after = (
        _figure(move.what, value) for value in (move.before, move.after)
    )
    first, changed = at(move.date, move.commit), ", ".join(move.changed)
    cells = (
        Text(title),
        Text(name),
        Text(before),
        Text(after, Tone.BAD if move.is_worse else Tone.GOOD),
        Text(first),
        Text(changed),
    )
    sentence = f"{title} {before} to {after} since {first}" + (
        f" ({changed})" if changed else ""
    )
    return Row(cells, narrow=(name, sentence))


def _figure(what: str, value: float) -> str:
    if what == "coverage":
        return percent(value)
    return f"{digits(value)} ms"


def _plots(history: History) -> Section:
    blocks: list[Block] = []
    for number, model in enumerate(history.models[:MOST_PLOTTED]):
        lines = tuple(line for line in _timelines(model) if _is_plotted(line))
        if lines:
            blocks += [
                Heading(name_of(model, history), f"model-{number}"),
                Timelines(lines),
            ]
    note = "one point a run; a dashed line is a run that lost a group"
    left_out = len(history.models) - MOST_PLOTTED
    if left_out > 0:
        note += f"; {left_out:,} further models have none here"
    return Section("plots", "Over time", note, tuple(blocks), Formats.PAGE)


def _is_plotted(line: Timeline) -> bool:
    return sum(moment.value is not None for moment in line.moments) > 1


def _timelines(model: ModelHistory) -> Iterator[Timeline]:
    yield Timeline("Coverage", "", _moments(model, "coverage"), "r3", is_share=True)
    yield Timeline("Fusion groups", "", _moments(model, "groups"), "r5")
    yield Timeline("Step time", "ms", _moments(model, "ms"), "r4")


def _moments(model: ModelHistory, what: str) -> tuple[Moment, ...]:
    events: dict[tuple[str, str | None], list[str]] = {}
    for lost in model.lost:
        events.setdefault((lost.date, lost.commit), []).append(group_text(lost))
    found = []
    for run in model.runs:
        value = _value(run, what)
        words = "not known" if value is None else _in_words(what, value)
        lost_then = events.get((run.date, run.commit))
        event = ""
        if lost_then:
            event = f"{at(run.date, run.commit)} lost {'; '.join(lost_then)}"
        found.append(
            Moment(
                run.date[:10], value, f"{at(run.date, run.commit)}: {words}", event
            )
        )
    return tuple(found)


def _value(run: RunLine, what: str) -> float | None:
    if run.status == FAILED:
        return None
    if what == "groups":
        return float(run.number_of_groups)
    if what == "coverage":
        return run.coverage
    return run.ms


def _in_words(what: str, value: float) -> str:
    if what == "groups":
        return f"{value:.0f}"
    return _figure(what, value)


def _not_read(history: History, most: int) -> Section:
    rows = tuple((one.source, one.why) for one in history.unreadable[:most])
    return Section(
        "unreadable", "Not read", blocks=(NamedValues(rows),), formats=Formats.PAGE
    )
