"""A text with its secrets masked: which rules apply to it, and to which lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from fusiondoc.masking import private_keys, vendor_tokens
from fusiondoc.masking.secret_names import MASK
from fusiondoc.masking.secret_rules import RULES, SecretRule

KINDS = (
    "private keys (PEM, OpenSSH, PGP, PuTTY)",
    "values of names such as password, token, secret, api_key, AccountKey, DB_PASS",
    "passwords in URLs, connection strings, netrc and command lines",
    "Authorization headers, cookies and signatures",
    "addresses of webhooks (Slack, Discord, Teams and others)",
    "JSON Web Tokens and keys",
    f"tokens of {len(vendor_tokens.services())} services by their form",
)
"""The kinds of secrets, in words for users."""

_SHORT_TEXT = 200
"""Length in characters below which the masked form of a text is cached: a report
repeats most short texts."""

_LONG_TEXT = 2000
"""Characters above which the different words of a text, which repeats most of them,
are searched once each."""

_COLOUR = re.compile(
    r"(?:\x1b|\\+(?:u001b|x1b|033|e)|\^\[)\[[0-9;:]*[A-Za-z]|\x1b\][0-9]*;(?:[^;\x07\x1b\n]{0,80};)?|\x07|\x1b\\|#033\[[0-9;]*m",
    re.IGNORECASE,
)
"""Control sequences of a terminal, raw or escaped."""


def masked(text: str) -> str:
    """The text with its secrets masked; the number of its lines stays."""
    if len(text) < _SHORT_TEXT:
        return _masked_short(text)
    return mask(text)[0]


@lru_cache(maxsize=4096)
def _masked_short(text: str) -> str:
    return mask(text)[0]


def mask(text: str) -> tuple[str, int]:
    """Return the masked text, and the number of secrets. A line whose secret
    contains colours loses its colours."""
    if "\x1b" in text or "[0m" in text:
        plain = _COLOUR.sub("", text)
        made, number = _mask_plain(plain)
        if not number:
            return text, 0
        lines = zip(text.split("\n"), plain.split("\n"), made.split("\n"))
        return "\n".join(
            line if before == after else after for line, before, after in lines
        ), number
    return _mask_plain(text)


def _mask_plain(text: str) -> tuple[str, int]:
    rules = _rules_for(text)
    number = 0
    for rule in rules:
        text, found = _masked_by(rule, text)
        number += found
    return text, number


_LEAST_TOKEN = 15
"""Least characters of a service's token."""
_LONG_WORD = re.compile(
    r"(?<![\w.$~+/=%-])(?=[\w.$~+/=%-]*(?:[0-9]|[a-z][A-Z]))[\w.$~+/=%-]{15,}"
)
"""A word that may be a secret: it contains a digit, or capitals among small
letters."""


def _rules_for(text: str) -> list[SecretRule]:
    """The rules that may match a text: nearly always none."""
    if len(text) < _LONG_TEXT:
        words: Collection[str] = text.split()
        lower = text.lower()
    else:
        words = set(text.split())
        lower = "\n".join(words).lower()
    hints = [hint for hint in _WORD_HINTS if hint in lower]
    long_words = "\n".join([word for word in words if len(word) >= _LEAST_TOKEN])
    if long_words:
        may_be_tokens = "\n".join(_LONG_WORD.findall(long_words)).lower()
        hints += [hint for hint in _FORM_HINTS if hint in may_be_tokens]
    numbers: set[int] = set()
    for hint in hints:
        numbers.update(_OF_HINT[hint])
    rules = []
    for number in sorted(numbers):
        if RULES[number].may_be_in(lower):
            rules.append(RULES[number])
    return rules


def _rules_by_hint() -> dict[str, list[int]]:
    """Indexes of the rules that have a hint."""
    found: dict[str, list[int]] = {}
    for number, rule in enumerate(RULES):
        for hint in dict.fromkeys(rule.hints):
            found.setdefault(hint, []).append(number)
    return found


_OF_HINT = _rules_by_hint()
_FORM_HINTS = tuple(
    dict.fromkeys(hint for rule in RULES if rule.form for hint in rule.hints)
)
_WORD_HINTS = tuple(
    dict.fromkeys(hint for rule in RULES if not rule.form for hint in rule.hints)
)


def _masked_by(rule: SecretRule, text: str) -> tuple[str, int]:
    if rule.private_keys:
        return private_keys.mask_private_keys(text, MASK)
    number = 0
    parts, done = [], 0
    for start, end in _lines_with(rule, text):
        made, found = rule.applied(text[start:end])
        if found:
            parts += [text[done:start], made]
            done = end
            number += found
    return ("".join([*parts, text[done:]]) if parts else text), number


_WHOLE = 1000
"""Most characters of a text that is not searched line by line."""


def _lines_with(rule: SecretRule, text: str) -> Iterator[tuple[int, int]]:
    """The stretches of lines that a rule has to search: finding a hint is a hundred
    times faster."""
    lower = text.lower()
    if len(lower) != len(text) or len(text) < _WHOLE:
        yield 0, len(text)
        return
    at = 0
    nearest = dict.fromkeys(rule.finds or rule.hints, -1)
    while True:
        for hint, position in list(nearest.items()):
            if position < at:
                found = lower.find(hint, at)
                if found < 0:
                    del nearest[hint]
                else:
                    nearest[hint] = found
        if not nearest:
            return
        first = min(nearest.values())
        end = first
        for _ in range(1 + rule.more_lines):
            end = text.find("\n", end + 1) if end >= 0 else end
        end = len(text) if end < 0 else end
        yield text.rfind("\n", 0, first) + 1, end
        if end == len(text):
            return
        at = end + 1
