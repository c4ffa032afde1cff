"""A loss that a survey found, in words."""

from __future__ import annotations

from fusiondoc.model import count
from fusiondoc.model.survey_answers import NAMES, Gone
from fusiondoc.rendering.blocks import Column
from fusiondoc.rendering.units import percent
from fusiondoc.rendering.values import Cell, Count, Share, Text

COLUMNS = (
    Column("groups"),
    Column("model"),
    Column("date"),
    Column("share before", number=True),
    Column("share since", number=True),
    Column("runs since", number=True),
    Column("came with"),
    Column("why"),
)


def cells(one: Gone) -> tuple[Cell, ...]:
    """Return a row of a table with ``COLUMNS``."""
    return (
        Text("; ".join(one.texts) + _instances(one)),
        Text(one.model or "-"),
        Text(_when(one) or "-"),
        Share(one.share_before),
        Share(one.share_since),
        Count(one.runs_since),
        Text(_cause(one)),
        Text(", ".join(one.why) or "-"),
    )


def title(one: Gone) -> str:
    """Return the lost groups and the model."""
    more = len(one.texts) - 1
    text = one.text + _instances(one)
    if more:
        text += f", and {count(more, 'more group')}"
    if one.model:
        return f"{text} ({one.model})"
    return text


def sentence(one: Gone) -> str:
    """Return when it was lost, in how many runs, and the cause."""
    if one.by in ("date", "lines"):
        last, since = "before it", "since"
    else:
        joint = "on" if one.by in ("gpu", "settings") else "up to"
        last = f"{joint} {_value(one.by, one.last)}"
        since = f"{'on' if joint == 'on' else 'from'} {_value(one.by, one.since)}"
        since += "" if joint == "on" else " on"
    when = _when(one)
    now = percent(one.share_since) if one.share_since else "none"
    parts = [
        f"{when}: " if when else "",
        f"in {percent(one.share_before)} of {count(one.runs_before, 'run')} {last},"
        f" in {now} of {count(one.runs_since, 'run')} {since}",
        f", of the runs with {one.scope} alone" if one.scope else "",
    ]
    text = "".join(parts)
    if one.by == "date":
        text += "; nothing that the runs record changed at that time"
    if one.by == "lines":
        text += "; the program's lines changed then"
    if one.together:
        text += f"; came together with {', '.join(one.together)}"
    return text + (f"; {', '.join(one.why)}" if one.why else "")


def _instances(one: Gone) -> str:
    if one.instances > 1:
        return f" (fewer than {one.instances} instances)"
    return ""


def _when(one: Gone) -> str:
    if one.date is None:
        return ""
    text = one.date
    if one.date_from != one.date_to:
        text += f" (between {one.date_from} and {one.date_to})"
    return text + (f", step by step until {one.until}" if one.until else "")


def _cause(one: Gone) -> str:
    if one.by == "date":
        return "nothing that is recorded"
    first = f"{_value(one.by, one.last)} to {one.since}"
    text = "; together with ".join((first, *one.together))
    return text + (f"; with {one.scope} alone" if one.scope else "")


def _value(by: str, value: str) -> str:
    return f"{NAMES[by]} {value}"
