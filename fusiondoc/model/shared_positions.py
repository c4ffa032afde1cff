"""Source positions in a form that is equal for all ranks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.model.report import Group, Unfused
from fusiondoc.model.source import file_of, from_package, last_name


class SharedPositions:
    """Source positions in a form that is equal for all ranks of a run: machines can
    keep one program in different folders. A file is reduced to its name, unless a
    rank has two files of that name; a file of a package to its path from the
    package's name on.

    ``sources``: pairs of a rank and one of its positions.
    """

    def __init__(self, sources: Iterable[tuple[int | None, str | None]]) -> None:
        named: dict[tuple[int | None, str], str] = {}
        self._several: set[str] = set()
        """Names that several files of one rank have."""
        for rank, source in sources:
            file = file_of(source)
            if (
                file is not None
                and named.setdefault((rank, last_name(file)), file) != file
            ):
                self._several.add(last_name(file))

    def of(self, source: str | None) -> str | None:
        """Return the position in the form that is equal for all ranks."""
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
    """Return the shared form for the source positions in rows of a report."""
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
