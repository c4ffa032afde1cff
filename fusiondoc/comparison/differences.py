"""The differences in how two reports were made: environment, fuser, knobs,
settings, passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from fusiondoc.comparison import Difference
from fusiondoc.fusers import FUSERS
from fusiondoc.model.report import Report
from fusiondoc.model.runs import KnobState
from fusiondoc.model.source import Options, in_words

_NOT_COMPARED = frozenset(
    (
        "executable",
        "host",
        *(fuser.switches.trace_variable for fuser in FUSERS.values()),
    )
)
"""Values without influence: the folder of an interpreter, and names that differ by
design, of containers and of the folder for a capture's trace."""


def differences(a: Report, b: Report) -> tuple[Difference, ...]:
    """Values that differ between the sides; a fact about the machine that only one
    side has is no difference."""
    found = list(_mapping("environment", a.environment, b.environment, both=True))
    for name in ("requested", "effective", "live"):
        values = (getattr(a.fuser, name), getattr(b.fuser, name))
        if None not in values and values[0] != values[1]:
            found.append(
                Difference("fuser", name, in_words(values[0]), in_words(values[1]))
            )
    # A log names no knob, whatever was set; a capture names every knob that was
    # set.
    both = a.target.options is None or b.target.options is None
    found += _mapping("knob", _knobs(a.knobs), _knobs(b.knobs), both=both)
    if not both:
        found += _mapping("setting", _options(a), _options(b), both=False)
        found += _mapping(
            "setting",
            a.target.environment_set,
            b.target.environment_set,
            both=False,
        )
    return tuple(found)


def _options(report: Report) -> dict[str, object]:
    """The options by name, without knobs, which are compared separately."""
    names = []
    for field in fields(Options):
        if field.name != "knobs":
            names.append(field.name)
    return {name: getattr(report.target.options, name) for name in names}


def _knobs(knobs: tuple[KnobState, ...]) -> dict[str, str]:
    return {knob.name: _knob_value(knob) for knob in knobs}


def _knob_value(knob: KnobState) -> str:
    """The value read back, or the requested one; and whether it has no effect."""
    value = knob.effective if knob.effective is not None else knob.requested
    return f"{value}" + (" (does nothing)" if knob.live is False else "")


def _mapping(
    kind: str, a: Mapping[str, Any], b: Mapping[str, Any], both: bool
) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        if name in _NOT_COMPARED or (both and (name not in a or name not in b)):
            continue
        x, y = in_words(a.get(name)), in_words(b.get(name))
        if x != y:
            yield Difference(kind, name, x, y)


def passes_differ(a: Report, b: Report) -> bool:
    """True if both state how often they ran the model, and the numbers differ."""
    return None not in (runs_of(a), runs_of(b)) and runs_of(a) != runs_of(b)


def runs_of(report: Report) -> int | None:
    """Number of passes that the run was to make; None if it is not known."""
    options = report.target.options
    if options is None:
        return None
    return options.runs
