"""Secrets in text, arguments and variables, each replaced by ``***``.

What is looked for: values of names that say so (``--token=...``, ``api_key: ...``, ``HF_TOKEN=...``), the
``Authorization`` header, passwords in URLs, private keys, and the forms that services give their tokens. What
torch and models print must stay: names of values (``%token.1``), special tokens (``pad_token=<pad>``), hashes
of kernels, mangled names, paths. Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter, abc
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from operator import is_not
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

MASK = "***"

T = TypeVar("T")


def masked(text: str) -> str:
    """The text with its secrets masked; the number of its lines stays."""
    return _masked_short(text) if len(text) < _SHORT_TEXT else mask(text)[0]


_SHORT_TEXT = 200


@lru_cache(maxsize=4096)
def _masked_short(text: str) -> str:
    """A report says most of them many times."""
    return mask(text)[0]


def mask(text: str) -> tuple[str, int]:
    """The same, and how many were masked."""
    number = 0
    lower = text.lower()
    if len(lower) < _FEW_CHARACTERS and _HINT.search(lower) is None:
        return text, 0
    for known in _HINTS:
        if known in lower:
            break
    else:
        return text, 0  # nearly all
    for rule in _RULES:
        if not any(hint in lower for hint in rule.hints):
            continue
        parts, done = [], 0
        for start, end in _lines_with(rule, text, lower):
            made, found = _applied(rule, text[start:end])
            if found:
                parts += [text[done:start], made]
                done = end
                number += found
        if parts:
            text = "".join([*parts, text[done:]])
            lower = text.lower()
    return text, number


def _lines_with(rule: _Rule, text: str, lower: str) -> Iterator[tuple[int, int]]:
    """The stretches of lines in which a rule has to look: finding a hint is a hundred times quicker."""
    if rule.over_lines or len(lower) != len(text) or len(text) < _SHORT:
        yield 0, len(text)
        return
    at = 0
    nearest = dict.fromkeys(rule.hints, 0)
    while True:
        for hint, place in list(nearest.items()):
            if place < at or not place:
                found = lower.find(hint, at)
                if found < 0:
                    del nearest[hint]
                else:
                    nearest[hint] = found
        if not nearest:
            return
        first = min(nearest.values())
        end = text.find("\n", first)
        end = len(text) if end < 0 else end
        yield text.rfind("\n", 0, first) + 1, end
        if end == len(text):
            return
        at = end + 1


_FEW_CHARACTERS = 50
"""Below so many one search for all hints is quicker than one for each: places in the source."""


def masked_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line: also the word behind an option that names a secret (``--api-key X``)."""
    made: list[str] = []
    option = None
    for word in arguments:
        if option is not None and not word.startswith("--") and is_secret(option, word):
            made.append(MASK)
        else:
            made.append(_masked_word(word))
        option = word if word.startswith("-") and "=" not in word else None
    return tuple(made)


def masked_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables, by name and by value."""
    return {name: MASK if is_secret(name, value) else masked(value) for name, value in variables.items()}


def masked_in(value: T) -> T:
    """A report, a record or JSON with the secrets of every text in it masked; what is under a name that says
    secret in a mapping too, and lists named ``command`` or ``script_args`` as arguments."""
    return texts_changed(value, masked, lambda key, item: (key, _masked_item(key, item)))


def texts_changed(value: T, change: Callable[[str], str], entry: Callable[[Any, Any], tuple[Any, Any]]) -> T:
    """A report, a record or JSON with another text for each; itself where none is another.

    Lists and tuples are gone through; other sequences (packed lines of a log) are left as they are, as are
    fields that stand in no JSON.

    Args:
        entry: the same for a key of a mapping and what is under it.
    """
    made: Any = value
    kind: Any = type(value)
    if kind in _NO_TEXT or not _may_hold_text(kind):
        return value
    names = _names(kind)
    if isinstance(value, str):
        made = change(value)
    elif names is not None:
        changed = {}
        for name in names:
            before = getattr(value, name)
            of: Any = type(before)
            if of is str:
                after = change(before)
            elif of in _NO_TEXT or not _may_hold_text(of) or not before:
                continue
            elif name in _ARGUMENTS and isinstance(before, tuple):
                after = entry(name, before)[1]
            else:
                after = texts_changed(before, change, entry)
            if after is not before:
                changed[name] = after
        made = replace(made, **changed) if changed else value
    elif isinstance(value, (tuple, list)):
        items = [texts_changed(one, change, entry) for one in value]
        if any(map(is_not, items, value)):
            is_named = isinstance(value, tuple) and hasattr(value, "_fields")
            made = kind(*items) if is_named else kind(items)
    elif isinstance(value, abc.Mapping):
        entries = dict(entry(key, item) for key, item in value.items())
        made = value if entries == value else entries
    return made  # type: ignore[no-any-return]


_NO_TEXT = frozenset((int, float, bool, type(None)))


@lru_cache(maxsize=None)
def _may_hold_text(kind: type) -> bool:
    """Whether texts are looked for in values of a class."""
    return is_dataclass(kind) or issubclass(kind, (str, tuple, list, abc.Mapping))


@lru_cache(maxsize=None)
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that are looked into; None for another class."""
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind) if field.metadata.get("json", True))


_ARGUMENTS = ("command", "script_args")


def _masked_item(key: Any, item: Any) -> Any:
    if isinstance(item, str) and isinstance(key, str) and is_secret(key, item):
        return MASK
    if key in _ARGUMENTS and isinstance(item, (list, tuple)) and all(isinstance(one, str) for one in item):
        return type(item)(masked_arguments(item))
    return masked_in(item)


def _masked_word(word: str) -> str:
    """A word of a command line: ``--name=value``, ``NAME=value``, or any text."""
    name, equals, value = word.partition("=")
    if equals and re.fullmatch(r"[+-]*[\w.-]{1,200}", name) and is_secret(name, value):
        return f"{name}={MASK}"
    return masked(word)


# -- names --------------------------------------------------------------------------------------------------

_KEYS = "api|secret|access|private|account|auth|encryption|signing|ssh|license|licence"
_SAYS_SECRET = re.compile(
    rf"(?:^|_)(?:password|passwd|pwd|passphrase|secrets?|credentials?|(?:{_KEYS})_?key(?:_id)?|github_pat)$"
)
_OF_A_MODEL = frozenset(
    re.findall(
        r"\w+",
        "pad eos bos sep cls mask unk special image audio video start end stop begin first last next new line"
        " num max min n per each add additional extra decoder encoder forced prompt sub",
    )
)
"""Words before ``token`` in options and output of models: tokens of a text, no secret."""

_NOTHING = frozenset(
    re.findall(
        r"\w+",
        "none null true false yes no on off str int float bool bytes tensor any optional string object"
        " required undefined empty nan unset missing",
    )
)


def is_secret(name: str, value: str) -> bool:
    """Whether the value of an option or variable of that name is one."""
    bare = value.strip("\"'")
    if not bare or bare.lower() in _NOTHING or bare.startswith(MASK):
        return False
    snake = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[-200:]).lower()).strip("_")
    if _SAYS_SECRET.search(snake):
        return not bare.startswith(("/", "./", "~")) or "pass" in snake
    if snake.endswith("token"):
        if _OF_A_MODEL & set(snake.split("_")[:-1]):
            return looks_random(bare)
        return not (bare.isdigit() and len(bare) < 6) and not bare.startswith(("/", "./", "~"))
    return snake.split("_")[-1] in ("key", "sig", "signature", "credential") and looks_random(bare)


def looks_random(value: str) -> bool:
    """Whether a value is long and without a pattern, as keys are: letters and digits, at least 3 bits of
    entropy a character."""
    if not 16 <= len(value) <= 4096 or not re.fullmatch(r"[A-Za-z0-9+/=_.~-]+", value):
        return False
    if not (re.search("[0-9]", value) and re.search("[A-Za-z]", value)) or value.startswith(("/", "./")):
        return False
    share = [number / len(value) for number in Counter(value).values()]
    return -sum(one * math.log2(one) for one in share) >= 3.0


# -- free text ---------------------------------------------------------------------------------------------

_Judge = Callable[["re.Match[str]"], "str | None"]


@dataclass(frozen=True)
class _Rule:
    """``hints``: one of them is in every text, in lower case, in which the pattern finds something. ``put``
    gives what a match becomes; None leaves it."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    put: _Judge
    over_lines: bool = False


_SHORT = 1000
"""Characters from which on lines are looked at one by one."""


def _applied(rule: _Rule, text: str) -> tuple[str, int]:
    number = 0

    def put(found: re.Match[str]) -> str:
        nonlocal number
        made = rule.put(found)
        if made is None or made == found.group():
            return found.group()
        number += 1
        return made

    return rule.pattern.sub(put, text), number


def _assigned(found: re.Match[str]) -> str | None:
    """``name = value`` somewhere in a text."""
    name, between, value = found.groups()
    text = found.string
    before = re.search(r"[%$\w.-]*\Z", text[max(0, found.start() - 60) : found.start()])
    whole = (before.group() if before else "") + name
    if whole.startswith("%") or _is_code(value):
        return None
    named = whole.startswith("--") or whole.upper() == whole or _OF_A_SERVICE.search(whole) is not None
    if name.lower() == "token" and not named and not looks_random(value.strip("\"'")):
        return None
    if not is_secret(whole, value):
        return None
    quote = value[0] if value[0] in "\"'" else ""
    end = quote if quote and value.endswith(quote) and len(value) > 1 else ""
    return f"{name}{between}{quote}{MASK}{end}"


_OF_A_SERVICE = re.compile(
    r"(?i)(?:auth|access|refresh|bearer|session|security|api|hf|hub|git\w{2,3})[_-]?token\Z"
)

_CODE = re.compile(r"[\"']?(?:[%$<{(\[]|[A-Za-z_][\w.]*[(\[]|(?:os|self|args|config|cfg|env|settings)\.)")


def _is_code(value: str) -> bool:
    """A name or call of a program, a type, a value of a graph: no literal."""
    return _CODE.match(value) is not None


def _whole(found: re.Match[str]) -> str:
    return MASK


def _last_group(found: re.Match[str]) -> str | None:
    """The last group is the secret."""
    start, end = found.span(found.lastindex or 0)
    if found.string.startswith(MASK, start):
        return None
    return found.string[found.start() : start] + MASK + found.string[end : found.end()]


def _hugging_face(found: re.Match[str]) -> str | None:
    """Tokens are random; names of models (``hf_DistilBertForSequenceClassification``) are words."""
    body = found.group()[3:]
    others = sum(not one.islower() for one in body)
    is_name = body[0].isupper() and others * 4 <= len(body)
    return None if is_name or (body.islower() and len(body) < 30 and body.isalpha()) else MASK


def _with_a_digit(found: re.Match[str]) -> str | None:
    text = found.group()
    return MASK if re.search("[0-9]", text) and re.search("[A-Za-z]", text[3:]) else None


def _private_key(found: re.Match[str]) -> str | None:
    inside = re.sub(r"(?:[^\s\\]|\\(?!n))+", MASK, found.group(2))
    return found.group(1) + inside


_KEY_HINTS = ("_key", "-key", "apikey", "accesskey", "secretkey", "privatekey", "authkey")

_WORDS = (
    r"password|passwd|passphrase|secret|credentials?|token"
    rf"|(?:{_KEYS})[_-]?key(?:[_-]?id)?"
)

_RULES = (
    _Rule(
        ("private key",),
        re.compile(
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)((?:[A-Za-z0-9+/=\s\\:,]|-(?!----))*)"
        ),
        _private_key,
        over_lines=True,
    ),
    _Rule(
        ("authorization", "x-api-key", "x-auth-token", "cookie"),
        re.compile(
            r"(?i)(\b(?:proxy-)?authorization|\bx-api-key|\bx-auth-token|\b(?:set-)?cookie)"
            r"([\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?)([^\s\"',;]+)"
        ),
        _last_group,
    ),
    _Rule(("bearer",), re.compile(r"\b([Bb]earer\s{1,8})([A-Za-z0-9._~+/=-]{12,})"), _last_group),
    _Rule(("://",), re.compile(r"(://)([^\s/@:\"'<>]{0,256}:[^\s/\"'<>]{1,256})(?=@)"), _last_group),
    _Rule(("://",), re.compile(r"(://)([A-Za-z0-9_-]{20,256})(?=@)"), _last_group),
    _Rule(
        ("sig", "credential", "key=", "token="),
        re.compile(
            r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token)|access_token|"
            r"token|key)=)([^&\s\"'#]{8,})"
        ),
        _last_group,
    ),
    _Rule(
        ("passw", "passphrase", "secret", "credential", "token", *_KEY_HINTS),
        re.compile(
            rf"(?i)({_WORDS})([\"']?\s{{0,8}}[:=]\s{{0,8}})"
            r"(\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[\"']?[^\s\"',;&]+)"
        ),
        _assigned,
    ),
    _Rule(
        ("--",),
        re.compile(
            rf"(?i)(?<![\w-])(--(?:[a-z0-9]{{1,30}}-){{0,4}}(?:{_WORDS}))([ ]{{1,8}})([^\s\"'-][^\s\"']*)"
        ),
        _assigned,
    ),
    _Rule(("hf_",), re.compile(r"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{16,}(?![A-Za-z0-9_])"), _hugging_face),
    _Rule(
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "aiza", "sg."),
        re.compile(
            r"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}"
            r"|glpat-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
            r"|AIza[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"
        ),
        _whole,
    ),
    _Rule(("akia", "asia"), re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"), _whole),
    _Rule(
        ("sk-", "k_live_", "k_test_"),
        re.compile(r"(?<![A-Za-z0-9_-])(?:sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,})"),
        _with_a_digit,
    ),
    _Rule(("xox",), re.compile(r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{10,}"), _whole),
    _Rule(
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
        _whole,
    ),
)
"""In this order: what one has masked is none for the next."""

_HINTS = tuple(dict.fromkeys(hint for rule in _RULES for hint in rule.hints))
_HINT = re.compile("|".join(map(re.escape, _HINTS)))
