"""What must hold for the text of every HTML report, read by a parser that is not
ours."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
_LEADS_OUT = (
    "src",
    "href",
    "action",
    "data",
    "poster",
    "srcset",
    "xlink:href",
    "formaction",
    "background",
)


class Page(HTMLParser):
    """Checks balance, identities and references while it reads; ``problems`` says
    what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[str | None] = []
        self.tags: set[str] = set()
        self._links: list[str] = []
        self._references: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        if self._open:
            self.problems.append(f"not closed: {self._open}")
        twice = {one for one in self.ids if self.ids.count(one) > 1}
        if twice:
            self.problems.append(f"ids that are there twice: {sorted(twice)}")
        for name in (*self._links, *self._references):
            if name not in self.ids:
                self.problems.append(f"leads nowhere: #{name}")

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.tags.add(tag)
        if tag not in _VOID:
            self._open.append(tag)
        self._attributes(tag, attrs)

    def handle_startendtag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.tags.add(tag)
        self._attributes(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(
                f"</{tag}> at {self.getpos()}, open: {self._open[-3:]}"
            )
        else:
            self._open.pop()

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.problems.append(f"attribute twice in {tag}: {names}")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "style" or name.startswith("on"):
                self.problems.append(f"{tag} has {name}={value!r}")
            elif name in ("for", "aria-labelledby", "aria-describedby"):
                self._references += (value or "").split()
            elif name in _LEADS_OUT:
                if not re.fullmatch(r"#[\w-]+", value or ""):
                    self.problems.append(f"{tag} leads out of the page: {value!r}")
                else:
                    self._links.append((value or "")[1:])
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))
