"""A fuser: all facts about it that readers of logs, rules and reports need, by
concern."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiondoc.fusers.fuser_errors import FuserErrors
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.knob_rows import FuserCatalogue
from fusiondoc.fusers.taken_operators import TakenOperators


@dataclass(frozen=True)
class Fuser:
    """A fuser. A new one is an entry of the registry (``fusers/__init__.py``)."""

    name: str
    """Its name in options and reports."""
    title: str
    """Its name in sentences: "the legacy fuser"."""
    kinds: tuple[str, ...]
    """``Group.kind`` of its fusion groups: ``CudaFusionGroup``; several if it makes
    groups of several kinds."""
    of_torchscript: bool = True
    """Whether its groups are nodes of TorchScript's plans."""
    heading: str | None = None
    """Its name as the title of a list, if that is another: "Legacy fuser"."""
    old_nodes: tuple[str, ...] = ()
    """Older names of the group nodes of the first kind, in earlier versions of
    torch."""
    can_be_requested: bool = True
    """False for a fuser whose logs are read, but that fusiondoc switches on for no
    run."""
    by_default: bool = False
    """Whether it may run if no fuser is chosen."""
    instead: tuple[str, ...] = ()
    """Names of the fusers to try instead, best first."""
    operators: TakenOperators = field(default_factory=TakenOperators)
    errors: FuserErrors = field(default_factory=FuserErrors)
    limits: FuserLimits = field(default_factory=FuserLimits)
    log: FuserLog = field(default_factory=FuserLog)
    switches: FuserSwitches = field(default_factory=FuserSwitches)
    catalogue: FuserCatalogue = field(default_factory=FuserCatalogue)
    words: FuserWords = field(default_factory=FuserWords)

    @property
    def prints_kernels(self) -> bool:
        """Whether there is a way to make it print its kernels or partitions."""
        return bool(self.catalogue.dumps) or self.switches.dump_variable is not None

    @property
    def pass_headers(self) -> tuple[str, ...]:
        """Headers of the graphs that its pass prints."""
        pass_headers = []
        for header in (self.log.pass_start, self.log.plan_header):
            if header is not None:
                pass_headers.append(header)
        return tuple(pass_headers)

    @property
    def nodes(self) -> dict[str, str]:
        """Kind of a node that holds one of its groups (``prim::CudaFusionGroup``)
        -> ``Group.kind``."""
        if not self.of_torchscript:
            return {}
        return {
            **{f"prim::{kind}": kind for kind in self.kinds},
            **dict.fromkeys(self.old_nodes, self.kinds[0]),
        }
