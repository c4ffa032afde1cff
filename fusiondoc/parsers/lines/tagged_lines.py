"""The lines of a log once more, each with the process it is of: for what needs their text after the parse."""

from __future__ import annotations

from typing import Iterator

from fusiondoc.parsers.lines.cleaning import OuterPrefix, clean
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.parsers.lines.ranks import RankTags, Tag

SAMPLE = 4000
"""Lines from which an outer prefix is learnt."""


def tagged_lines(log: LogInput) -> Iterator[tuple[int, Tag, bytes]]:
    """(number from 1, tag of the process, line without colours and outer prefix)."""
    number = 0
    tags = RankTags(())
    outer: OuterPrefix | None = None
    for index, chunk in enumerate(read_chunks(log)):
        lines = clean(chunk).split(b"\n")
        if not lines[-1]:
            lines.pop()
        if index == 0:
            outer = OuterPrefix.learn(lines[:SAMPLE])
            if outer is not None:
                tags = RankTags(outer.prefixes(lines[:SAMPLE]))
        for line in lines:
            number += 1
            if outer is not None:
                prefix, line = outer.split(line)
                tags.current = tags.tag(prefix) if prefix is not None else tags.current
            yield number, tags.current, line
