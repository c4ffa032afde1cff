"""Pieces that several sections are made of: sections, tables, bars, lists of facts."""

from __future__ import annotations

from typing import Iterable, Sequence

from fusiondoc.reports.html.markup import Child, Markup, el


def section(identity: str, title: str, *children: Child, note: Child = None) -> Markup:
    """A part of the page with a heading that the navigation leads to."""
    intro = el("p", note, class_="lead") if note else None
    heading = el("h2", title, id=f"{identity}-title")
    return el("section", heading, intro, *children, id=identity, aria_labelledby=f"{identity}-title")


def table(
    caption: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Child]],
    attributes: Sequence[dict[str, str]] = (),
) -> Markup:
    """A table that scrolls inside itself. ``columns``: (heading, class of its cells); the first cell of a row
    is its heading."""
    head = el("tr", *(el("th", name, scope="col", class_=css or None) for name, css in columns))
    body = []
    for nth, row in enumerate(rows):
        first = el("th", row[0], scope="row", class_=columns[0][1] or None)
        cells = [el("td", cell, class_=columns[1 + i][1] or None) for i, cell in enumerate(row[1:])]
        body.append(el("tr", first, *cells, **(attributes[nth] if attributes else {})))
    whole = el("table", el("caption", caption), el("thead", head), el("tbody", *body))
    return el("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def bar(share: float, label: str, css: str = "") -> Markup:
    """A bar of ``share`` (0 to 1) of its room; ``label`` says the same in words."""
    width = f"{min(100.0, max(1.5, share * 100)):.1f}" if share > 0 else "0"
    return el(
        "svg",
        el("rect", class_="track", width="100", height="10"),
        el("rect", class_="value", width=width, height="10"),
        class_=f"bar {css}".strip(),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values; pairs without a value are left out."""
    rows = [el("div", el("dt", name), el("dd", value)) for name, value in pairs if value]
    return el("dl", *rows, class_="facts")


def group_links(ids: Iterable[str], most: int = 6) -> list[Child]:
    """Links to groups, separated by blanks."""
    ids = list(ids)
    links: list[Child] = []
    for one in ids[:most]:
        links += [el("a", one, href=f"#{one}", class_="tag"), " "]
    if len(ids) > most:
        links.append(f"and {len(ids) - most} more")
    return links


def code_block(text: Child, label: str) -> Markup:
    """Text that keeps its lines; can be scrolled with the keyboard."""
    return el("pre", el("code", text), tabindex="0", role="region", aria_label=label)
