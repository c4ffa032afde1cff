"""Makes text of a log safe for readers: character sequences that a terminal, GitHub
or Markdown would interpret as commands become plain text.

Logs, files and captures come from others. Their escape sequences can rename a
terminal's window or hide lines, bidirectional controls reorder what is read
(CVE-2021-42574), and ``::error::`` at the start of a line is a command to the
runner of GitHub Actions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except newline and tab, DEL, C1
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # bidirectional, invisible
    "\ufff9-\ufffb"  # annotations
    "\u2028\u2029"  # line ends for some readers, none for others
    "\ud800-\udfff"  # lone surrogates: cannot be written
    "\U000e0000-\U000e0fff"  # tags: a text that nobody sees
    "]"
)
"""Characters that are shown as escapes. The joiners U+200C and U+200D belong to
ordinary words."""


def visible(text: str) -> str:
    """Return the text with an escape such as ``\\x1b`` for each hidden character;
    line ends and tabs stay."""
    if _HIDDEN.search(text):
        return _HIDDEN.sub(_escape, text)
    return text


def one_line(text: str) -> str:
    """Return the visible text on one line, with single spaces."""
    return visible(" ".join(text.split()))


def in_github_log(text: str) -> str:
    """Return text for this process's output: with ``no_workflow_commands`` if the
    output is the log of GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        return no_workflow_commands(text)
    return text


def in_json(text: str) -> str:
    """Return a JSON document with hidden characters as JSON escapes: the same data,
    safe on a terminal."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON has no other hidden characters of ASCII unescaped
    return _HIDDEN.sub(_json_escape, text)


def csv_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a CSV document. Lists are joined by ``; ``, None is empty; no text is
    a command to a terminal, or a formula to a spreadsheet, whatever white space
    precedes its sign."""
    import csv  # imported here, as few commands need it
    import io

    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(heads)
    table.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, tuple):  # some programs make a cell of each element
        return "; ".join(_no_formula(str(one)) for one in value)
    if isinstance(value, str):
        return _no_formula(value)
    return value


def _no_formula(text: str) -> str:
    calculated = text.lstrip()[:1] in _FORMULA or text[:1] in ("\t", "\r", "\n")
    return visible("'" + text if calculated else text)


_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""Signs that begin a formula, with their wide forms, which spreadsheets treat
alike."""


def visible_in(value: T) -> T:
    """Return a report, or a part of one, with every string ``visible``, also keys
    of mappings."""
    from fusiondoc.masking import (
        texts_changed,
    )  # every command imports this module, few come here

    return texts_changed(
        value, visible, lambda key, item: (visible_in(key), visible_in(item))
    )


def _escape(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number < 0x100:
        return f"\\x{number:02x}"
    if number < 0x10000:
        return _json_escape(found)
    return f"\\U{number:08x}"


def _json_escape(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


_COMMAND = re.compile(r"^((?:\x1b\[[0-9;]*m|[^\S\n])*)::", re.MULTILINE)


def no_workflow_commands(text: str) -> str:
    """Return text for the log of GitHub Actions, whose runner obeys lines that
    begin with ``::`` after spaces, and ``##[`` anywhere (actions/runner,
    src/Runner.Common/ActionCommand.cs): a space is inserted into them."""
    return _COMMAND.sub(r"\1: :", text).replace("##[", "## [")


_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$!&]|^[-+=]|(?<=^\d)[.)]")
_MARKUP = {"\\<": "&lt;", "\\>": "&gt;", "\\&": "&amp;"}
_LINK = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]*://|\bwww\.|\b(?:mailto|xmpp):)[^\s]+", re.IGNORECASE
)


def markdown(text: str) -> str:
    """Return the text on one line of Markdown: without markup, mentions of persons
    or issues, and ends of table cells; addresses are code, so that they are no
    links."""
    text = one_line(text)
    parts, done = [], 0
    for link in _LINK.finditer(text):
        parts += [_plain(text[done : link.start()]), markdown_code(link.group())]
        done = link.end()
    return "".join([*parts, _plain(text[done:])])


def _plain(text: str) -> str:
    text = _SPECIAL.sub(
        lambda found: _MARKUP.get("\\" + found.group(), "\\" + found.group()), text
    )
    # GitHub finds people and issues in the finished page, where no escape is left:
    # a space without width.
    return re.sub(r"@|#(?=\d)", "\\g<0>\u200b", text)


def markdown_code(text: str) -> str:
    """Return a code span on one line. A pipe would end a table's cell even there,
    and a backtick the span."""
    text = one_line(text).replace("|", "\\|")
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    if text:
        return f"{ticks}{pad}{text}{pad}{ticks}"
    return "–"
