"""Environment, fuser, knobs and what was asked for: what is not the same on both sides."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from fusiondoc.comparison.differences import Difference
from fusiondoc.model.report import KnobState, Report

_NOT_COMPARED = ("executable",)
"""Where an interpreter lies changes nothing."""


def differences(a: Report, b: Report) -> tuple[Difference, ...]:
    """What both sides tell and is not the same; what only one tells of its machine is no difference."""
    found = list(_mapping("environment", a.environment, b.environment, both=True))
    for name in ("requested", "effective", "live"):
        values = (getattr(a.fuser, name), getattr(b.fuser, name))
        if None not in values and values[0] != values[1]:
            found.append(Difference("fuser", name, _text(values[0]), _text(values[1])))
    # A log names no knob, whatever was set; a capture names each that was set.
    both = not (_told(a) and _told(b))
    found += _mapping("knob", _knobs(a.knobs), _knobs(b.knobs), both=both)
    if not both:
        for part in ("options", "environment_set"):
            found += _mapping("setting", _part(a, part), _part(b, part), both=False)
    return tuple(found)


def _told(report: Report) -> bool:
    return isinstance(report.target.get("options"), Mapping)


def _part(report: Report, name: str) -> dict[str, Any]:
    """Options and variables; a knob is compared as a knob."""
    part = report.target.get(name)
    if not isinstance(part, Mapping):
        return {}
    return {str(key): value for key, value in part.items() if key != "knobs"}


def _knobs(knobs: tuple[KnobState, ...]) -> dict[str, str]:
    return {knob.name: knob_text(knob) for knob in knobs}


def knob_text(knob: KnobState) -> str:
    """The value read back, or the one asked for; and whether it does nothing."""
    value = knob.effective if knob.effective is not None else knob.requested
    return f"{value}" + (" (does nothing)" if knob.live is False else "")


def _mapping(kind: str, a: Mapping[str, Any], b: Mapping[str, Any], both: bool) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        if name in _NOT_COMPARED or (both and (name not in a or name not in b)):
            continue
        x, y = _text(a.get(name)), _text(b.get(name))
        if x != y:
            yield Difference(kind, name, x, y)


def _text(value: Any) -> str | None:
    """The value in words; None for what is not set."""
    if value is None or value == [] or value == {}:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)
