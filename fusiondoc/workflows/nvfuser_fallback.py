"""nvFuser's fallback to unfused operators, switched off so that a run shows the error behind it."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fuser_knobs import catalogue, exists_in
from fusiondoc.fuser_knobs.checks import DISABLE, merge_option_lists
from fusiondoc.numbers import whole_number

NUMBER = "PYTORCH_NVFUSER_DISABLE_FALLBACK"


def fallback_off(torch: str, user: Mapping[str, str]) -> dict[str, str]:
    """The variables that switch the fallback off in this torch, with what the user has set in them.

    Torch 1.11 reads only PYTORCH_NVFUSER_DISABLE_FALLBACK (with atoi: a number), later ones the option
    ``fallback`` of PYTORCH_NVFUSER_DISABLE too (utils.cpp of each; strings of the wheels).
    For a torch without nvFuser both are given: a log with fallbacks then comes from another torch, which the
    program starts itself.
    """
    option = next(known for known in catalogue.options(DISABLE) if known.name == "fallback")
    number = next(known for known in catalogue.variables() if known.name == NUMBER)
    version = catalogue.as_version(torch)
    by_option, by_number = exists_in(option.live, version), exists_in(number.live, version)
    if not (by_option or by_number):
        by_option = by_number = True
    variables = {}
    if by_option:
        variables[DISABLE] = merge_option_lists(user.get(DISABLE, ""), "fallback")[0]
    if by_number:
        variables[NUMBER] = "1"
    return variables


def is_off(variables: Mapping[str, str]) -> bool:
    """Whether the fallback is switched off already."""
    number = whole_number(variables.get(NUMBER, "").strip())
    return "fallback" in variables.get(DISABLE, "").split(",") or (number or 0) > 0
