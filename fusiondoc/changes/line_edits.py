"""Convert edits of characters to edits of whole lines, as a report holds and shows
them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusiondoc.changes.edits import TextEdit, changed_text, overlapping
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import Edit


def line_edits(
    file: ParsedFile, name: str, edits: Sequence[TextEdit], line: int = 0
) -> tuple[Edit, ...]:
    """Return the lines that edits of a file change; empty if the changed file would
    be no valid Python.

    Args:
        name: the file's name in the report. line: the line to list first, if it
        changes; the others are in order.
    """
    if (
        not edits
        or overlapping(edits)
        or not _is_python(changed_text(file.source.text, edits))
    ):
        return ()
    made: list[Edit] = []
    for lines, own in _by_lines(file, edits):
        made += _of_lines(file, name, lines, own)
    return tuple(sorted(made, key=lambda edit: (edit.line != line, edit.line)))


def lines_behind(edit: Edit) -> str | None:
    """Return the lines that an edit inserts behind a line that stays; None for an
    edit that changes the line."""
    stays = f"{edit.before}\n"
    if edit.after.startswith(stays):
        return edit.after[len(stays) :]
    return None


def together(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits of several changes, each once. Those that insert lines
    behind the same line are merged, such as the functions of two rewrites behind
    the last import."""
    found: list[Edit] = []
    behind: dict[tuple[str, int], int] = {}
    for edit in dict.fromkeys(edits):
        lines = lines_behind(edit)
        at = behind.get((edit.file, edit.line)) if lines is not None else None
        if at is not None:
            known = found[at]
            if f"\n{lines}\n" not in f"{known.after}\n":
                found[at] = replace(known, after=f"{known.after}\n{lines}")
            continue
        if lines is not None:
            behind[edit.file, edit.line] = len(found)
        found.append(edit)
    return tuple(found)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _by_lines(
    file: ParsedFile, edits: Sequence[TextEdit]
) -> list[tuple[range, list[TextEdit]]]:
    """Group the edits: those of one line, and those of several lines that one edit
    changes."""
    found: list[tuple[range, list[TextEdit]]] = []
    changed = set()
    for edit in edits:
        if not _is_between_lines(file, edit):
            changed.add(file.line_at(edit.start))
    ordered = sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
    for edit in ordered:
        first = file.line_at(edit.start)
        if _is_between_lines(file, edit) and first not in changed:
            first = max(1, first - 1)
        last = max(
            first,
            file.line_at(max(edit.start, edit.end - 1))
            if edit.end > edit.start
            else first,
        )
        if found and first < found[-1][0].stop:
            lines, own = found.pop()
            found.append(
                (range(lines.start, max(lines.stop, last + 1)), [*own, edit])
            )
        else:
            found.append((range(first, last + 1), [edit]))
    return found


def _is_between_lines(file: ParsedFile, edit: TextEdit) -> bool:
    """True if an edit inserts lines between two lines: it is shown with the line
    before, unless only the line after changes."""
    return edit.start == edit.end == file.offset_of_line(file.line_at(edit.start))


def _of_lines(
    file: ParsedFile, name: str, lines: range, edits: Sequence[TextEdit]
) -> list[Edit]:
    """Return the edit of some lines: the first line becomes all changed lines, the
    others are removed."""
    start, end = file.offset_of_line(lines.start), file.offset_of_line(lines.stop)
    own = [edit.counted_from(start) for edit in edits]
    after = changed_text(file.source.text[start:end], own).removesuffix(
        file.newline
    )
    texts = [file.text_of_line(line) for line in lines]
    changed = Edit(name, lines.start, texts[0], after.replace(file.newline, "\n"))
    return [
        changed,
        *(
            Edit(name, line, text, "")
            for line, text in zip(lines[1:], texts[1:], strict=True)
        ),
    ]


_MOST_SHOWN = 8
"""Most lines of a function that are shown whole; of a longer one only changed lines
are shown."""


def shown_lines(
    file: ParsedFile, edits: Sequence[Edit], first: int, last: int
) -> tuple[str, str]:
    """Lines of a file without indentation, and the same changed; "..." for those
    left out."""
    changed = {edit.line: edit.after for edit in edits}
    before: list[str] = []
    after: list[str] = []
    for line in range(first, last + 1):
        text = file.text_of_line(line)
        if line in changed or last - first < _MOST_SHOWN:
            before.append(text.strip())
            after += [row.strip() for row in changed.get(line, text).split("\n")]
        elif before[-1:] != ["..."]:
            before.append("...")
            after.append("...")
    return "\n".join(row for row in before if row), "\n".join(
        row for row in after if row
    )
