"""A piece of Python in a file, wherever its lines break: tables of changed code
(``hand_mutations.py``, ``fuzz/protections.py``) hold when the formatter moves a
break."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+|[^\w\s]")


def replaced_once(text: str, old: str, new: str) -> str:
    """The text with one piece of code replaced.

    Raises:
        ValueError: the old code is not in the text exactly once.
    """
    found = list(_pattern(old).finditer(text))
    if len(found) != 1:
        raise ValueError(f"stands {len(found)} times")
    start, end = found[0].span()
    return text[:start] + new + text[end:]


def _pattern(code: str) -> re.Pattern[str]:
    """Matches the code with other white space between its words, and with the comma
    that the formatter writes where a list has a line for each of its members."""
    indent = code[: len(code) - len(code.lstrip(" "))]
    parts = [re.escape(indent)]
    before = None
    for word in _WORD.findall(code):
        if before is not None:
            parts.append(r",?\s*" if word in ")]}" and before != "," else r"\s*")
        parts.append(re.escape(word))
        before = word
    ending = "".join(re.escape(last) for last in code[len(code.rstrip()) :])
    return re.compile("".join(parts) + ending)
