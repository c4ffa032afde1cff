"""The check of many models as sections: a table of the models, the losses of each,
and the models that were not run."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model import count
from fusiondoc.model.checked_models import CheckedModel, CheckedModels, CheckOutcome
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    Item,
    Items,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.units import seconds
from fusiondoc.rendering.values import (
    UNKNOWN,
    Cell,
    Count,
    Millis,
    Share,
    Status,
    Text,
    Tone,
)
from fusiondoc.views.formatting import near, with_near_paths, with_short_positions
from fusiondoc.views.losses_in_sentences import expected_and_found

_TONES = {
    CheckOutcome.HOLDS: Tone.GOOD,
    CheckOutcome.BROKEN: Tone.BAD,
    CheckOutcome.FAILED: Tone.BAD,
    CheckOutcome.NOT_RUN: Tone.DIM,
    CheckOutcome.UNCHANGED: Tone.DIM,
}
_COLUMNS = (
    Column("model", cut=True),
    Column("result"),
    Column("groups", number=True, wanted=3),
    Column("held", number=True),
    Column("lost", number=True),
    Column("coverage", number=True, wanted=2),
    Column("step ms", number=True, optional=True, wanted=1),
    Column("cached from", optional=True, wanted=1),
)


def checked_document(checked: CheckedModels) -> Document:
    """Return the document of the whole check."""
    sections = (
        _table(checked.models),
        _lost(checked.models),
        _failed(checked.models),
        _not_run(checked.models),
        _changed(checked),
    )
    notes = Section("notes", "Notes", blocks=(Sentences(checked.notes),))
    facts = tuple(_facts(checked))
    lead = ", ".join(f"{label.lower()} {value}" for label, value in facts)
    return Document(
        "check", checked.file, verdict(checked), lead, facts, (*sections, notes)
    )


def verdict(checked: CheckedModels) -> str:
    """Return the whole check in a sentence."""
    total = (
        len(checked.models)
        - checked.number(CheckOutcome.NOT_RUN)
        - checked.number(CheckOutcome.UNCHANGED)
    )
    held = f"{checked.number(CheckOutcome.HOLDS)} of {count(total, 'model')} hold"
    text = held if total else "no model was run"
    for outcome in (
        CheckOutcome.BROKEN,
        CheckOutcome.FAILED,
        CheckOutcome.NOT_RUN,
        CheckOutcome.UNCHANGED,
    ):
        number = checked.number(outcome)
        if number:
            text += f", {number} {outcome.value}"
    return text


def _facts(checked: CheckedModels) -> list[tuple[str, str]]:
    cached = sum(model.cached_from is not None for model in checked.models)
    facts = [
        (
            "Ran",
            f"{seconds(checked.seconds)} with {count(checked.workers, 'worker')}",
        )
    ]
    torch = sorted(
        {model.torch for model in checked.models if model.torch is not None}
    )
    if torch:
        facts.append(("Torch", ", ".join(torch)))
    if checked.commit is not None:
        facts.append(("Commit", checked.commit))
    if cached:
        facts.append(
            ("Cached", f"{cached} of {count(len(checked.models), 'model')}")
        )
    return facts


def _table(models: Sequence[CheckedModel]) -> Section:
    rows = tuple(_row(model) for model in models)
    return Section("models", "Models", blocks=(Table(_COLUMNS, rows),))


def _row(model: CheckedModel) -> Row:
    status = Status(model.outcome.value, _TONES[model.outcome])
    if model.groups is None:
        return Row((Text(model.section), status, *[UNKNOWN] * (len(_COLUMNS) - 2)))
    cells: tuple[Cell, ...] = (
        Text(model.section),
        status,
        Count(model.groups),
        Count(model.held),
        Count(model.lost, Tone.BAD if model.lost else Tone.PLAIN),
        Share(model.coverage),
        Millis(model.step_ms),
        Text(_moment(model.cached_from))
        if model.cached_from is not None
        else UNKNOWN,
    )
    return Row(cells)


def _moment(date: str) -> str:
    """``2026-11-24 18:20``."""
    return date[:16].replace("T", " ")


def _lost(models: Sequence[CheckedModel]) -> Section:
    items = []
    for model in models:
        if model.outcome is not CheckOutcome.BROKEN or model.report is None:
            continue
        rows = with_near_paths(model.report, first=visible).expectations
        broken = [row for row in rows if not row.holds]
        details = []
        for row in broken:
            details.append(with_short_positions(expected_and_found(row)))
        mark = Status(f"{len(broken)} lost", Tone.BAD)
        items.append(
            Item(
                (mark,), model.section, near(broken[0].source or ""), tuple(details)
            )
        )
    return Section(
        "lost", "Lost", "the line is that of the first loss", (Items(tuple(items)),)
    )


def _failed(models: Sequence[CheckedModel]) -> Section:
    rows = [model for model in models if model.outcome is CheckOutcome.FAILED]
    return Section("failed", "Failed", blocks=(Items(tuple(map(_item, rows))),))


def _not_run(models: Sequence[CheckedModel]) -> Section:
    rows = [model for model in models if model.outcome is CheckOutcome.NOT_RUN]
    return Section("not-run", "Not run", blocks=(Items(tuple(map(_item, rows))),))


def _changed(checked: CheckedModels) -> Section:
    """Section: why each model was run or left out by ``--changed-since``."""
    items = []
    for model in checked.models if checked.changed_since is not None else ():
        if model.outcome is CheckOutcome.UNCHANGED:
            items.append(
                Item(
                    (Status("left out", Tone.DIM),),
                    model.section,
                    near(model.why or ""),
                )
            )
        elif model.changed is not None:
            items.append(
                Item(
                    (Status("run", Tone.PLAIN),), model.section, near(model.changed)
                )
            )
    return Section(
        "changed",
        f"Changed since {checked.changed_since}",
        blocks=(Items(tuple(items)),),
    )


def _item(model: CheckedModel) -> Item:
    lines = [line for line in (model.why or "").splitlines() if line.strip()]
    details = (*lines[-_MOST_LINES:], *([model.hint] if model.hint else []))
    return Item(
        (Status(model.outcome.value, _TONES[model.outcome]),),
        model.section,
        "",
        details,
    )


_MOST_LINES = 6
"""Most lines of an error that are shown; the last lines of a traceback name the
error."""
