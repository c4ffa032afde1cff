"""Positions in the source as all ranks of a run have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.model.report import Group, Unfused
from fusiondoc.model.source import file_of, from_package, last_name


class SharedPositions:
    """Positions in the source as all ranks of a run have them: machines can keep
    one program in folders of their own. A file is known by its name alone, unless a
    rank has two of that name; one of a package from the package's name on.

    ``sources``: a rank, and a position of it.
    """

    def __init__(self, sources: Iterable[tuple[int | None, str | None]]) -> None:
        named: dict[tuple[int | None, str], str] = {}
        self._several: set[str] = set()
        """Names that files of one rank share."""
        for rank, source in sources:
            file = file_of(source)
            if (
                file is not None
                and named.setdefault((rank, last_name(file)), file) != file
            ):
                self._several.add(last_name(file))

    def of(self, source: str | None) -> str | None:
        """The position, equal for all ranks."""
        file = file_of(source)
        if source is None or file is None:
            return source
        short = from_package(source)
        if short == source and last_name(file) not in self._several:
            return last_name(file) + source[len(file) :]
        return short


def shared_positions(
    groups: Sequence[Group], unfused: Sequence[Unfused]
) -> SharedPositions:
    """The positions in the source that rows of a report name, as all ranks have
    them."""
    return SharedPositions(
        [
            *(
                (group.rank, node.source)
                for group in groups
                for node in group.nodes
            ),
            *((row.rank, row.source) for row in unfused),
        ]
    )
