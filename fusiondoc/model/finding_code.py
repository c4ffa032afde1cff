"""A finding code: its properties that do not depend on the run."""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.code_kinds import Cause, Family, Loss
from fusiondoc.model.remedies import Remedy

OTHER_FUSER = "another fuser"
MORE_RUNS = "runs doubled"
TRACE = "--trace"
"""Changes that ``diagnose --try`` makes besides knobs (``Code.tries``)."""

DYNAMIC_SIZES = "fusion_strategy=DYNAMIC:10"
REDUCTIONS = "nnc_reductions=on"


@dataclass(frozen=True)
class Code:
    """A finding code."""

    code: str
    severity: str
    """The usual severity: error, warning or note."""
    title: str
    """A sentence that fits on one line of a terminal."""
    remedy: Remedy | None = None
    """The advice, if one fits all operators with this reason. For a code without
    it, a rule writes the advice."""
    tries: tuple[str, ...] = ()
    """Changes that ``diagnose --try`` makes for it: knobs as ``name=value``, or
    OTHER_FUSER, MORE_RUNS, TRACE."""
    loss: Loss = Loss.RESULT
    """Only of codes of reasons, like ``cause``."""
    cause: Cause = Cause.NEIGHBOUR
    change: ChangeKind = ChangeKind.REPAIR
    """The kind of change in the plan, for a finding that is a step of its own."""
    whole_run: bool = False
    """It sums up the run, unlike others of its family, which concern one group or
    kernel."""

    @property
    def advice(self) -> str | None:
        """The sentences of ``remedy``."""
        if self.remedy is None:
            return None
        return self.remedy.text

    @property
    def family(self) -> Family:
        return Family(self.code[2])

    @property
    def of_the_run(self) -> bool:
        """True if it concerns the run or the log as a whole: with other figures it
        is still the same finding."""
        return self.whole_run or self.family in (
            Family.ENVIRONMENT,
            Family.RUNS,
            Family.LOG,
        )
