"""Whether two reports can be of one program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fusiondoc.model.report import Report
from fusiondoc.model.source import Source, from_package


def nothing_in_common(a: Report, b: Report, matched: bool) -> str | None:
    """Return a sentence if the programs of A and B have nothing in common, else
    None; also None if a side has no line of a program.

    They have something in common if a group of one is in the other (``matched``),
    if they are of the same file, if one operator of both is of the same line of a
    file of the same name, or if both have the same operators.
    """
    if matched:
        return None
    of_a, of_b = set(_operators(a)), set(_operators(b))
    if not of_a or not of_b:
        return None
    if {file for _, file, _ in of_a} & {file for _, file, _ in of_b} or _near(
        of_a
    ) & _near(of_b):
        return None
    if _kinds(a) == _kinds(b):
        return None
    return (
        "A and B have nothing in common: no group of one is in the other, and they are of different programs"
        f" ({_files(of_a)}; {_files(of_b)})"
    )


def _operators(report: Report) -> Iterator[tuple[str, str, int]]:
    """Operator, file and line of the user's program, without operators of which
    only a line of a package is known."""
    nodes = []
    for group in report.groups:
        for node in group.nodes:
            nodes.append((node.op, node.user_source or node.source))
    rows = [(row.op, row.user_source or row.source) for row in report.unfused]
    for op, source in (*nodes, *rows):
        position = Source.parse(source)
        if (
            position is not None
            and position.has_file
            and from_package(position.file) == position.file
        ):
            yield op, position.file, position.line


def _near(operators: set[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    """The same with file names alone, for a checkout in another folder."""
    return {(op, _name(file), line) for op, file, line in operators}


def _kinds(report: Report) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for group in report.groups:
        for op in group.ops:
            kinds[op] += group.count
    for row in report.unfused:
        kinds[row.op] += row.count
    return kinds


_MOST_NAMED = 2


def _files(operators: set[tuple[str, str, int]]) -> str:
    files = sorted({file for _, file, _ in operators})
    shown = ", ".join(files[:_MOST_NAMED])
    return shown + (
        f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    )


def _name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
