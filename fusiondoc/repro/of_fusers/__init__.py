"""Parts of a run of torch.compile as scripts: which part, what it is made of, and
its text."""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.model.report import Report
from fusiondoc.parsers.observed import Observed


class ReadLog(NamedTuple):
    """What a log, trace or capture shows."""

    report: Report
    observed: Observed
    shown: str
    """As the user named it."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is of a run of torch.compile."""
        compilation = self.observed.compilation
        return compilation is not None and bool(compilation.graphs)
