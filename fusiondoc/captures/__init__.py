"""Captures and their records: the folder of a run, read anywhere, without torch.

This file: where captures are kept, and how many, from options, else a variable,
else the configuration file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.numbers import whole_number

FOLDER = ".fusiondoc"
"""The folder for captures in the current folder, by default."""
KEPT = 20

IN, LAST = "captures-in", "keep-last"
"""The options, and the keys of the configuration."""
VARIABLES: Mapping[str, str] = {
    IN: "FUSIONDOC_CAPTURES",
    LAST: "FUSIONDOC_KEEP_LAST",
}

_given: dict[str, str] = {}
"""Values set by options of this call."""
_configured: dict[str, str] = {}


def set_by_option(key: str, value: str) -> None:
    """Set the value of an option of this call."""
    _given[key] = _checked(key, value, f"--{key}")


def configure(key: str, value: str, origin: str) -> None:
    """Set a value from the configuration; ``origin`` names its file and key."""
    _configured[key] = _checked(key, value, origin)


def forget() -> None:
    """The call is over: drop the values of its options."""
    _given.clear()
    _configured.clear()


def folder_named() -> Path | None:
    """The folder named for captures; None for ``.fusiondoc`` of the current
    folder."""
    named = _value(IN)
    if named:
        return Path(named).expanduser()
    return None


def number_kept() -> int:
    """Number of captures to keep, beside those that are kept by name."""
    return whole_number(_value(LAST) or "") or KEPT


def _value(key: str) -> str | None:
    variable = os.environ.get(VARIABLES[key], "")
    if key not in _given and variable:
        return _checked(key, variable, VARIABLES[key])
    return _given.get(key, _configured.get(key))


def _checked(key: str, value: str, where: str) -> str:
    if key == LAST and not 0 < (whole_number(value) or 0) < 10**9:
        raise UsageError(
            f"{where}: '{value}' is not a number of captures",
            "A whole number from 1, such as 50.",
        )
    return value
