"""Options of a run as passed by Python callers (``fusiondoc.diagnose``, the pytest
fixture), checked by the table of ``model/run_options.py``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs.checks import check_knob
from fusiondoc.model.run_options import BY_NAME, Kind, Offer, RunOption, offered


def checked_options(given: Mapping[str, Any], offers: Offer) -> dict[str, Any]:
    """Values for fields of ``RunRequest``.

    Args: given: values by name; None is the default of an option. offers: the
        interface that offers them. Raises: UsageError: there is no such option
        there, or it does not accept that value.
    """
    known = offered(offers)
    for name in given:
        if name not in known:
            raise UsageError(f"unknown option '{name}'", did_you_mean(name, known))
    return {name: _checked(BY_NAME[name], value) for name, value in given.items()}


def _checked(option: RunOption, value: Any) -> Any:
    if value is None:
        return option.default
    if option.kind is Kind.FLAG:
        return bool(value)
    if option.kind is Kind.CHOICE:
        return _choice(option, value)
    if option.kind is Kind.SETTINGS:
        return knob_texts(value)
    if option.kind in (Kind.TEXTS, Kind.NAMES, Kind.CHOICES):
        if isinstance(value, str):
            return (value,)
        return tuple(value)
    if option.kind is Kind.TEXT:
        if not isinstance(value, str):
            raise _wrong(option, value, "a text")
        return value
    if option.kind is Kind.SECONDS:
        return _number(option, value, float, "a number of seconds")
    return _number(option, value, operator.index, "a whole number")


def _choice(option: RunOption, value: Any) -> Any:
    if value not in option.choices:
        raise UsageError(
            f"unknown {option.name} '{value}'",
            did_you_mean(str(value), option.choices),
        )
    return value


def _number(
    option: RunOption, value: Any, convert: Callable[[Any], Any], needed: str
) -> Any:
    """Convert a Python or numpy number."""
    if isinstance(value, (bool, str)):
        raise _wrong(option, value, needed)
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(option, value, needed) from None


def _wrong(option: RunOption, value: Any, needed: str) -> UsageError:
    return UsageError(
        f"{option.name}={value!r}: {needed} is needed",
        f"As the option {option.flag} takes it.",
    )


def knob_texts(knobs: Mapping[str, Any] | None) -> dict[str, str]:
    """Convert values of knobs to the texts of ``--knob``; True is "on". Raises:
    UsageError: there is no such knob, or it does not accept that value.
    """
    texts: dict[str, str] = {}
    for name, value in (knobs or {}).items():
        switch = "on" if value is True else "off"
        texts[name] = switch if isinstance(value, bool) else str(value)
        check_knob(name, texts[name])
    return texts


def input_texts(inputs: Any) -> tuple[str, ...]:
    """Texts of ``--input``: one, several or none.

    Raises:
        UsageError: they are no texts.
    """
    if inputs is None:
        return ()
    several = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    if not all(isinstance(text, str) for text in several):
        raise UsageError(
            "inputs of a target are texts, as --input takes them: it runs in another process",
            "For example: inputs=['float32[8,128]:grad', '0.5']; or pass the model itself with its tensors.",
        )
    return tuple(several)
