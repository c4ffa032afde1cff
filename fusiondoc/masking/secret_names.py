"""Tests for names of options, variables and fields that mean a secret value, and
for values that can be secrets."""

from __future__ import annotations

import math
import re
from collections import Counter

MASK = "***"

KEYS = (
    "api|secret|access|private|account|auth|encryption|signing|ssh|license|licence|master|storage|shared"
    "|subscription|consumer|client|hmac|aes|crypto|cipher|wallet|gpg|pgp|jwt|sas"
)
"""Words before ``key`` in names of secrets."""

PASS_OWNERS = (
    "db|database|user|usr|admin|root|smtp|mail|imap|pop3?|ftp|sftp|ssh|proxy|redis|mysql|maria|mariadb|pg|postgres"
    "|postgresql|mongo|mongodb|rabbit|rabbitmq|amqp|ldap|login|sudo|su|basic|auth|registry|docker|wifi|vault|http"
    "|https|jenkins|api|service|svc|app|account|sql|mssql|oracle|rds|broker|kafka|es|elastic|influx|grafana"
    "|nexus|artifactory|git|svn|key|keystore|truststore|store|cert|pfx|p12|pem|vpn|rdp|vnc|mqtt|zk|ray|dask|spark|hive"
)
"""Words before ``pass`` in names of secrets; a ``forward_pass`` is none."""

WORDS = (
    r"password|passwd|passphrase|passcode|pwd|secrets?|credentials?|token"
    rf"|(?:{KEYS})[_ -]?key(?:[_-]?(?:id|data|base))?|(?:{PASS_OWNERS})[_-]?pass"
)
"""Names of secrets in a text, alone or as the end of a longer name."""

_SECRET_NAME = re.compile(
    rf"(?:password|passwd|passphrase)(?:_?[0-9]{{1,2}}|_value|_plain)?$"
    rf"|(?:^|_)(?:pwd|passcode|secrets?|credentials?|(?:{KEYS})_?key(?:_(?:id|data|base))?"
    rf"|secret_key_base|github_pat|(?:{PASS_OWNERS})_?pass)(?:_?[0-9]{{1,2}}|_value|_plain)?$"
)
_OF_A_MODEL = frozenset(
    re.findall(
        r"\w+",
        "pad eos bos sep cls mask unk special image audio video start end stop begin first last next new line"
        " num max min n per each add additional extra decoder encoder forced prompt sub",
    )
)
"""Words before ``token`` in options and output of models: tokens of a text, no
secret."""

_PASSES = frozenset(
    [
        "forward",
        "backward",
        "first",
        "second",
        "last",
        "next",
        "one",
        "two",
        "single",
        "multi",
    ]
)
"""Words before an upper-case ``PASS`` that is no password."""

_NOTHING = frozenset(
    re.findall(
        r"\w+",
        "none null nil true false yes no on off str int float bool bytes tensor any optional string object"
        " required undefined empty nan unset missing redacted hidden masked todo",
    )
)


def is_secret(name: str, value: str) -> bool:
    """Whether the value of an option or variable of that name is a secret."""
    bare = value.strip("\"'")
    if _holds_nothing(bare):
        return False
    name = name[-200:]
    snake = _snake(name)
    is_short_number = bare.isdigit() and len(bare) < 6
    if _SECRET_NAME.search(snake):
        return not _is_path(bare) or "pass" in snake
    if re.search(r"token(?:_?[0-9]{1,2}|_value)?$", snake):
        if _OF_A_MODEL & set(snake.split("_")[:-1]):
            return looks_random(bare)
        return not is_short_number and not _is_path(bare)
    if name.isupper() and re.search(r"(?:^|_)pass$", snake):
        return not (_PASSES & set(snake.split("_"))) and not is_short_number
    may_be_key = (
        re.search(r"(?:key|(?:^|_)(?:sig|signature|credential|dsn))$", snake)
        is not None
    )
    return may_be_key and looks_random(bare)


def _holds_nothing(value: str) -> bool:
    """Whether a value is empty, a word such as ``none``, or masked already."""
    if not value or value.lower() in _NOTHING or value.startswith(MASK):
        return True
    return len(value) > 2 and set(value) <= set("*.xX-_<>")


def name_means_secret(name: str) -> bool:
    """Whether the name alone means a secret, for any value: ``apiKey`` does,
    ``token`` and ``key`` do not."""
    return _SECRET_NAME.search(_snake(name[-200:])) is not None


def _snake(name: str) -> str:
    return re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    ).strip("_")


def _is_path(value: str) -> bool:
    """True for a file name; a key in base64 may begin with a slash too."""
    if value.startswith(("./", "../", "~")) or re.match(r"[A-Za-z]:[\\/]", value):
        return True
    return value.startswith("/") and not (
        len(value) >= 30
        and "." not in value
        and looks_random(value[1:])
        and re.search("[A-Z]", value) is not None
    )


def looks_random(value: str) -> bool:
    """Whether a value is long and without a pattern, as keys are: letters and
    digits, at least 3 bits of entropy a character."""
    if not 16 <= len(value) <= 4096 or not re.fullmatch(
        r"[A-Za-z0-9+/=_.~-]+", value
    ):
        return False
    if not (
        re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    ) or value.startswith(("/", "./")):
        return False
    share = [number / len(value) for number in Counter(value).values()]
    return -sum(frequency * math.log2(frequency) for frequency in share) >= 3.0


def looks_like_words(value: str) -> bool:
    """Whether a value is letters in a single case or in ``CamelCase``: a program's
    name, not random text."""
    if re.search("[0-9]", value):
        return False
    letters = [letter for letter in value if letter.isalpha()]
    capital = sum(letter.isupper() for letter in letters)
    return not letters or min(capital, len(letters) - capital) * 4 <= len(letters)
