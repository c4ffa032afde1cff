"""Parts of a run of torch.compile as scripts: the choice of a part, its operators,
and the text of the script."""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.model.report import Report
from fusiondoc.parsers.observed import Observed


class ReadLog(NamedTuple):
    """The content of a log, trace or capture."""

    report: Report
    observed: Observed
    shown: str
    """The user's name for it."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is from a run of torch.compile."""
        compilation = self.observed.compilation
        return compilation is not None and bool(compilation.graphs)
