"""What a test expects of a report: the keys of ``fusiondoc check``, read and matched by the same code."""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, Sequence

from fusiondoc.errors import UsageError
from fusiondoc.expectations.expectation import Section
from fusiondoc.expectations.match import check
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report

_NAME = "assert_fused"
_PLACE = re.compile(rf"^{_NAME}:(\d+):\d+: ", re.MULTILINE)
_HINT = "A group is a list of operators, such as ['aten::add', 'relu'], or has the keys of fusiondoc check."


def expected(
    groups: Sequence[Any] | None, phase: str | None, no_fallback: bool, others: Mapping[str, Any]
) -> Section:
    """The expectations of a call of ``assert_fused``.

    Args:
        groups: each as in the YAML of ``check``: a sequence of operators, or a mapping of keys. None: there
            is at least one group, whatever is in it.
        phase: of all groups that name none.
        others: further keys of a section (``min_coverage``, ``number_of_groups``); None leaves one out.

    Raises:
        UsageError: a key or a value that no file of expectations may hold.
    """
    whole = {key: value for key, value in others.items() if value is not None}
    if groups is None:
        whole.setdefault("number_of_groups", {"at_least": 1})
    if no_fallback:
        whole["max_fallbacks"] = 0
    # One group a line, after the line of the rest, so that a line number tells the group.
    lines = ["# " + _NAME] if not whole else []
    lines += [f"{key}: {_json(value)}" for key, value in whole.items()]
    before = len(lines) + 1
    if groups and _is_list(groups):
        lines += ["groups:", *(f"- {_json(_with_phase(group, phase))}" for group in groups)]
    elif groups is not None:
        lines.append(f"groups: {_json(groups)}")

    def place(match: re.Match[str]) -> str:
        number = int(match.group(1)) - before
        return f"{_NAME}, group {number}: " if number > 0 else f"{_NAME}: "

    try:
        return loads("\n".join(lines), _NAME).sections[0]
    except UsageError as error:
        raise UsageError(_PLACE.sub(place, error.message), _HINT) from None


def broken(section: Section, report: Report) -> str | None:
    """What does not hold, a line each as ``fusiondoc check`` says it, and where the whole report is; None if
    all holds."""
    lines = [outcome.text for outcome in check(section, report) if not outcome.holds]
    if not lines:
        return None
    torch = report.environment.get("torch")
    under = f"under {report.fuser.effective or 'no fuser'}" + (f", torch {torch}" if torch else "")
    return "\n".join([*lines, under, f"the whole report: fusiondoc parse {report.target.get('capture')}"])


def _with_phase(group: Any, phase: str | None) -> Any:
    if phase is None:
        return group
    if isinstance(group, Mapping):
        return {"phase": phase, **group}
    return {"ops": group, "phase": phase} if _is_list(group) else group


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _json(value: Any) -> str:
    """JSON is YAML in one line."""

    def plain(other: Any) -> Any:
        if isinstance(other, (set, frozenset)):
            return sorted(other, key=str)
        raise UsageError(
            f"{_NAME}: {other!r} is of type {type(other).__name__}, which it cannot compare", _HINT
        )

    return json.dumps(value, default=plain)
