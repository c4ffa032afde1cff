"""Private keys in a text: over lines behind any prefix of a log, or in one line with ``\\n`` written out.

A log puts the same prefix in front of every line of a key that it prints: a rank, a time stamp, ``> ``. The
text before ``-----BEGIN`` is that prefix; numbers in it may change from line to line.
"""

from __future__ import annotations

import re

_KINDS = r"[A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?"
BEGIN = re.compile(
    rf"-{{4,5}} ?BEGIN[ +]{_KINDS} ?-{{4,5}}|Private-Lines: \d{{1,3}}"
)
_END = re.compile(r"-{4,5} ?END[ +]|Private-MAC:")
HINTS = ("--begin", "ssh2", "private-lines")
"""Without spaces, as the words of a text are compared with them."""

_MOST_LINES = 400
"""Most lines that a key can have: a PGP key with subkeys has about three
hundred."""
_MOST_OTHER_LINES = 30
"""Most consecutive other lines between the lines of a key."""

_QUOTED = r"\s*(?:[bBrRuUfF]{0,2}[\"'`])?\s*"
_BODY = r"([A-Za-z0-9+/=_-]+)"
_AFTER = r"(?:\\+[nr])*[\"'`]?\s*[,+;)\\]*\s*$"
_LONG = re.compile(
    r"[A-Za-z0-9+/]{40,}={0,2}(?=(?:\\+[nr])*[\"'`]?\s*[,+;)\\]*\s*$)"
)
_LAST = re.compile(
    r"(?<![^\s\"'`>|:])[A-Za-z0-9+/=]{2,}(?=(?:\\+[nr])*[\"'`]?\s*$)"
)
_INSIDE = re.compile(r"(?:[^\s\\]|\\(?!n))+")


def mask_private_keys(text: str, mask: str) -> tuple[str, int]:
    """The text with the content of each key masked, and how many keys had any. The
    number of lines stays."""
    lines = text.split("\n")
    number = 0
    at = 0
    while at < len(lines):
        found = BEGIN.search(lines[at])
        if found is None:
            at += 1
            continue
        at, is_key = _mask_key(lines, at, found, mask)
        number += is_key
    if number:
        return "\n".join(lines), number
    return text, 0


def _mask_key(
    lines: list[str], first: int, begin: re.Match[str], mask: str
) -> tuple[int, bool]:
    """Mask the key that begins in a line; return the line at which to continue, and
    whether anything was masked."""
    line = lines[first]
    end = _END.search(line, begin.end())
    rest = line[begin.end() : end.start() if end else len(line)]
    if end:
        hidden = _INSIDE.sub(mask, rest)
    else:
        hidden = _LONG.sub(mask, _escaped(rest, mask))
    lines[first] = (
        line[: begin.end()] + hidden + (line[end.start() :] if end else "")
    )
    changed = hidden != rest
    if end is not None:
        if BEGIN.search(lines[first], begin.end()):  # a second key in this line
            before, after = lines[first][: end.start()], lines[first][end.start() :]
            masked, more = mask_private_keys(after, mask)
            lines[first] = before + masked
            changed = changed or more > 0
        return first + 1, changed
    body = re.compile(_shape(line[: begin.start()]) + _QUOTED + _BODY + _AFTER)
    others = 0
    at = first + 1
    for at in range(first + 1, min(len(lines), first + 1 + _MOST_LINES)):
        line = lines[at]
        if _END.search(line):
            changed = _mask_last(lines, at - 1, first, mask) or changed
            return at + 1, changed
        if BEGIN.search(line):
            return at, changed
        found = body.match(line)
        start, stop = found.span(1) if found else _span(_LONG.search(line))
        others = 0 if start >= 0 else others + 1
        if start >= 0:
            lines[at] = line[:start] + mask + line[stop:]
            changed = True
        if others > _MOST_OTHER_LINES:
            break
    return at + 1, changed


def _escaped(rest: str, mask: str) -> str:
    """The rest of the first line, if it contains the key with escaped line ends."""
    quote = re.search(r"[\"'`]", rest)
    inside = rest[: quote.start()] if quote else rest
    if not re.search(r"\\n|[A-Za-z0-9+/=]{16}", inside):
        return rest
    return _INSIDE.sub(mask, inside) + rest[len(inside) :]


def _span(found: re.Match[str] | None) -> tuple[int, int]:
    if found:
        return found.span()
    return -1, -1


def _mask_last(lines: list[str], at: int, first: int, mask: str) -> bool:
    """Mask the last line of a key, which is short and may have another prefix than
    the lines above it."""
    found = _LAST.search(lines[at]) if at > first else None
    if found is None or mask in lines[at]:
        return False
    lines[at] = lines[at][: found.start()] + mask + lines[at][found.end() :]
    return True


def _shape(prefix: str) -> str:
    """Return a pattern of the prefix of each line, in which numbers, and so times,
    may differ."""
    if prefix.strip():
        return re.sub(
            r"(?:\\?[0-9]|[0-9])+", r"[0-9]+", re.escape(prefix.rstrip()[:200])
        )
    return ""
