"""The fallback of a fuser to unfused operators, switched off so that a run shows
the error behind it."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fuser_knobs import catalogue, exists_in
from fusiondoc.fuser_knobs.checks import merge_option_lists
from fusiondoc.fusers import FUSERS
from fusiondoc.fusers.fuser_switches import FallbackOff
from fusiondoc.numbers import whole_number


def fallback_off(torch: str, user: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that switch fallbacks off in this version of torch,
    combined with the values that the user has set in them."""
    variables: dict[str, str] = {}
    for switch in _switches():
        variables.update(_variables(switch, torch, user))
    return variables


def is_off(variables: Mapping[str, str]) -> bool:
    """Whether a fallback is switched off already."""
    return any(_is_off(switch, variables) for switch in _switches())


def _switches() -> list[FallbackOff]:
    every = (fuser.switches.fallback_off for fuser in FUSERS.values())
    return [switch for switch in every if switch is not None]


def _variables(
    switch: FallbackOff, torch: str, user: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a switch that this torch reads. If it has no such fuser,
    both are set: a log with fallbacks then comes from another torch, which the
    program starts itself."""
    option = next(
        known
        for known in catalogue.options(switch.options)
        if known.name == switch.option
    )
    number = next(
        known for known in catalogue.variables() if known.name == switch.number
    )
    version = catalogue.as_version(torch)
    by_option, by_number = (
        exists_in(option.live, version),
        exists_in(number.live, version),
    )
    if not (by_option or by_number):
        by_option = by_number = True
    variables = {}
    if by_option:
        of_user = user.get(switch.options, "")
        variables[switch.options] = merge_option_lists(of_user, switch.option)[0]
    if by_number:
        variables[switch.number] = "1"
    return variables


def _is_off(switch: FallbackOff, variables: Mapping[str, str]) -> bool:
    number = whole_number(variables.get(switch.number, "").strip())
    return (
        switch.option in variables.get(switch.options, "").split(",")
        or (number or 0) > 0
    )
