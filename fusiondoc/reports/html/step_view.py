"""Where the time of a step goes: one stacked bar, its parts, and the modules that take most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from fusiondoc.model.bench import Part
from fusiondoc.reports.html.page_context import Context
from fusiondoc.reports.html.summary import Bar
from fusiondoc.reports.step_words import milliseconds, remarks, sentence, share

_HUES = 8
"""Colours of the page; further parts share the last, grey one."""
_LAYERS = 20


@dataclass(frozen=True)
class Slice:
    """A part of the stacked bar, in units of 1000, and its row."""

    what: str
    hue: str
    x: str
    width: str
    takes: str
    share: str


@dataclass(frozen=True)
class Module:
    """A module and its share of the step."""

    what: str
    takes: str
    share: str
    bar: Bar


@dataclass(frozen=True)
class StepTime:
    """``label`` says the bar in words."""

    note: str | None
    label: str
    slices: tuple[Slice, ...]
    modules: tuple[Module, ...]
    remarks: tuple[str, ...]


def step_view(context: Context) -> StepTime | None:
    """None without a profile, and without a word on why there is none."""
    report = context.report
    steps = report.steps
    if steps is None:
        return StepTime(report.steps_note, "", (), (), ()) if report.steps_note is not None else None
    modules = tuple(
        Module(one.what, milliseconds(one.ms), share(one.share), Bar(one.share, share(one.share)))
        for one in steps.layers[:_LAYERS]
    )
    said = tuple(text[0].upper() + text[1:] + "." for text in remarks(report))
    label = sentence(steps)
    return StepTime(label + ".", label, _slices(steps.parts), modules if len(modules) > 1 else (), said)


def _slices(parts: Sequence[Part]) -> tuple[Slice, ...]:
    made, x = [], 0.0
    for number, part in enumerate(parts):
        width = 1000 * part.share
        hue = f"r{min(number, _HUES - 1)}"
        made.append(
            Slice(part.what, hue, f"{x:.1f}", f"{width:.1f}", milliseconds(part.ms), share(part.share))
        )
        x += width
    return tuple(made)
