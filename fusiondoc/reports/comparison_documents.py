"""A comparison on a terminal, as Markdown for a pull request and as a page, with a
picture of each side in which the changed groups are marked."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from fusiondoc.comparison import Comparison, Side
from fusiondoc.model.report import Report
from fusiondoc.rendering import markdown_documents, pages, terminal_documents
from fusiondoc.rendering.drawing import Detail, drawn, plain
from fusiondoc.rendering.hues import colours
from fusiondoc.rendering.picture_blocks import Picture
from fusiondoc.rendering.printable import visible_in
from fusiondoc.views import comparison_words as words
from fusiondoc.views.comparison_sections import (
    MOST_IN_A_COMMENT,
    MOST_ON_A_TERMINAL,
    comparison_document,
)
from fusiondoc.views.formatting import near, near_paths_of
from fusiondoc.views.program_boxes import main_program, picture, within

MOST_BOXES = 400
"""Most boxes of the picture of one side."""


def as_text(
    comparison: Comparison,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
) -> str:
    """Return the comparison as text of at most ``width`` columns, with ANSI colours
    if ``colour``.

    Args:
        blocks: the terminal can show arrows; else they are plain ASCII.
        detail: the changes in one line, the first lines, or all.
    """
    near_paths = near_paths_of(*(comparison.reports or ()))
    comparison = near_paths.inside(replace(comparison, reports=None))
    if detail is Detail.VERDICT:
        lines: list[RenderableType] = []
        if comparison.unrelated is not None:
            lines.append(Text(comparison.unrelated))
        text = drawn(
            Lines(*lines, Text(words.changed(visible_in(comparison)))),
            width,
            colour,
        )
        if blocks:
            return text
        return plain(text)
    document = comparison_document(comparison, MOST_ON_A_TERMINAL)
    if detail is Detail.SUMMARY:
        document = replace(document, sections=())
    return terminal_documents.render(
        document, width=width, colour=colour, blocks=blocks
    )


def as_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown."""
    return markdown_documents.render(
        comparison_document(words.for_readers(comparison), MOST_IN_A_COMMENT)
    )


def as_page(comparison: Comparison) -> str:
    """The comparison as a page of HTML: no script, no network."""
    comparison = words.for_readers(comparison)
    sides = (("A", comparison.a), ("B", comparison.b))
    pictures = [_picture(comparison, name, side) for name, side in sides]
    if not any(one.graph for one in pictures):
        pictures = []
    return pages.render(
        comparison_document(comparison, pictures=pictures), colours()
    )


def _picture(comparison: Comparison, name: str, side: Side) -> Picture:
    """Return the plan of a side with the most changes; if nothing changed, the plan
    with the most groups."""
    report = None
    if comparison.reports is not None:
        report = comparison.reports[name == "B"]
    if report is None or not report.programs:
        return Picture(name, near(side.name))
    changed = _changed(comparison, name)
    most = max(report.programs, key=lambda one: len(changed.get(one.id, ())))
    chosen = most if changed.get(most.id) else None
    first = chosen.id if chosen is not None else main_program(report)
    shown = next(
        one for one in within(report.programs, first, MOST_BOXES) if one.id == first
    )
    known = {group.id: group for group in report.groups}
    graph = picture(
        shown, known, changed.get(shown.id, ()), key=f"{name}-{shown.id}"
    )
    further = len(report.programs) + report.programs_left_out - 1
    return Picture(name, graph.title, graph, further)


def _changed(comparison: Comparison, name: str) -> dict[str, frozenset[int]]:
    """Return for each program of a side the nodes whose groups changed. If only
    some instances of a group changed, these alone, as far as their layers identify
    them: layers in which the other side has no such group."""
    assert comparison.reports is not None
    mine, others = comparison.reports[name == "B"], comparison.reports[name != "B"]
    often: dict[str, int] = {}
    for change in comparison.groups:
        for ref in change.b if name == "B" else change.a:
            often[ref.id] = often.get(ref.id, 0) + change.count
    nodes = _nodes_of_groups(mine, often)
    layers: dict[tuple[tuple[str, ...], str | None], set[str | None]] = {}
    for group in others.groups:
        of_kind = layers.setdefault((group.ops, group.phase), set())
        of_kind.update(instance.layer for instance in group.instances)
    found: dict[str, set[int]] = {}
    for group in mine.groups:
        every = nodes.get(group.id, [])
        alike = layers.get((group.ops, group.phase), ())
        new = []
        for node, instance in zip(every, group.instances):
            if instance.layer not in alike:
                new.append(node)
        is_known = len(every) == len(group.instances) and len(new) == often.get(
            group.id
        )
        for program_id, index in new if is_known else every:
            found.setdefault(program_id, set()).add(index)
    return {program_id: frozenset(indices) for program_id, indices in found.items()}


def _nodes_of_groups(
    report: Report, groups: Container[str]
) -> dict[str, list[tuple[str, int]]]:
    """Return for each group its nodes, each as the id of its program and its index
    there."""
    nodes: dict[str, list[tuple[str, int]]] = {}
    for program in report.programs:
        for index, node in enumerate(program.nodes):
            if node.group is not None and node.group in groups:
                nodes.setdefault(node.group, []).append((program.id, index))
    return nodes
