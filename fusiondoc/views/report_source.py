"""The user's source with the groups and operators of each line marked, like a
coverage report."""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.model import count, dataclass, field
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import OpNode, Unfused
from fusiondoc.model.source import Source
from fusiondoc.rendering.blocks import Formats, Section
from fusiondoc.rendering.picture_blocks import Annotation, SourceFile, SourceFiles
from fusiondoc.views.formatting import near
from fusiondoc.views.report_context import ReportContext

WHOLE = 300
"""Files of at most this many lines are shown whole; of longer files the lines near
a marked line."""
AROUND = 6
MOST_LINES = 1_200
"""Most lines of all files of a page."""
_MOST_CODES = 3
_MOST_OPERATORS = 4
_NOTE = "Lines whose operators are in a group name it; lines with operators outside name the reason."


@dataclass
class _Mark:
    groups: dict[str, None] = field(default_factory=dict)
    outside: list[Unfused] = field(default_factory=list)


_Files = dict[str, dict[int, _Mark]]


def source(context: ReportContext) -> Section:
    """Section of the source files; empty if no line of the user's own program is
    known, and no file of a package is available."""
    mine, packages = _marks(context)
    files = {**packages, **mine}
    left = MOST_LINES
    made: list[SourceFile] = []
    for name in sorted(
        files, key=lambda file: (file not in mine, -len(files[file]))
    ):
        if left <= 0:
            break
        file = _file(name, files[name], context, left)
        left -= len(file.numbers)
        made.append(file)
    block = SourceFiles(tuple(made), is_full=left <= 0)
    return Section("source", "Source", _NOTE, (block,), Formats.PAGE)


def _marks(context: ReportContext) -> tuple[_Files, _Files]:
    """Return the marks of the user's files, and of packages' files."""
    files: _Files = {}
    packages: _Files = {}

    def marked(row: OpNode | Unfused) -> Iterator[_Mark]:
        """Yield the marks of the user's lines, and of the package's line if its
        file is available."""
        package = Source.parse(row.source)
        lines = row.users_lines if isinstance(row, Unfused) else (row.user_source,)
        users = [user for user in map(Source.parse, lines) if user is not None]
        for user in users:
            yield files.setdefault(user.file, {}).setdefault(user.line, _Mark())
        if package is None or any(
            package.at_line == user.at_line for user in users
        ):
            return
        if package.has_file and context.lines_of(package.file) is not None:
            yield packages.setdefault(package.file, {}).setdefault(
                package.line, _Mark()
            )

    for group in context.report.groups:
        for node in group.nodes:
            for mark in marked(node):
                mark.groups[group.id] = None
    for row in outside(context.report):
        for mark in marked(row):
            mark.outside.append(row)
    return files, packages


def _file(
    name: str, marks: dict[int, _Mark], context: ReportContext, most: int
) -> SourceFile:
    lines = context.lines_of(name)
    fused = sum(bool(mark.groups) for mark in marks.values())
    lost = sum(bool(mark.outside) for mark in marks.values())
    return SourceFile(
        name=near(name),
        text="\n".join(lines) if lines is not None else None,
        numbers=tuple(_shown_lines(lines, marks)[:most]),
        annotations={number: _annotation(mark) for number, mark in marks.items()},
        note=f"{count(fused, 'line')} with fused operators, {lost} with operators outside",
    )


def _shown_lines(lines: list[str] | None, marks: dict[int, _Mark]) -> list[int]:
    """Return the numbers of the lines that are shown, in their order."""
    if lines is None:
        return sorted(marks)
    last = len(lines) - (not lines[-1])
    if len(lines) <= WHOLE:
        return list(range(1, last + 1))
    wanted: set[int] = set()
    for number in marks:
        wanted.update(
            range(max(1, number - AROUND), min(last, number + AROUND) + 1)
        )
    return sorted(wanted)


def _annotation(mark: _Mark) -> Annotation:
    codes = list(dict.fromkeys(row.reason.code for row in mark.outside))
    counts: dict[str, int] = {}
    for row in mark.outside:
        counts[row.op] = counts.get(row.op, 0) + row.count
    named = []
    for op, times in counts.items():
        named.append(op + (f" ×{times}" if times > 1 else ""))
    more = " …" if len(named) > _MOST_OPERATORS else ""
    listed = ", ".join(named[:_MOST_OPERATORS]) + more
    return Annotation(
        tuple(mark.groups),
        tuple(codes[:_MOST_CODES]),
        f"{listed} not fused" if named else "",
    )
