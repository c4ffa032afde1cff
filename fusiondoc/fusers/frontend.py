"""A frontend: all facts about it that options, readers, rules and reports need, in
one object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Frontend:
    """A way from a program to fusion groups. A new frontend is an entry of the
    registry (``fusers/__init__.py``)."""

    name: str
    """As ``--frontend`` and ``Report.frontend`` have it: ``aot``."""
    title: str
    """How a sentence names it where groups of several frontends are counted:
    "TorchScript"."""
    module: str | None = None
    """The package that it comes from, as Python imports it; None for torch."""
    can_be_requested: bool = True
    """False for a frontend whose logs are read, and that no run of fusiondoc
    chooses."""
    fuser: str | None = None
    """``FuserState.effective`` of a run under the fuser that belongs to it; None
    where the fusers of TorchScript fuse its graphs."""
    fuser_title: str | None = None
    """How a sentence names that fuser, where it is no entry of the registry of
    fusers."""
    group_prefix: str | None = None
    """How ``Group.kind`` and the operators of that fuser begin. None where the
    groups are TorchScript's."""
    switched_by_package: bool = False
    """Whether its package fuses without a switch of torch: such a run is neither
    repeated without the fuser nor timed under others."""
    compiles_python: bool = False
    """Whether its graphs are made of Python in the first pass: where that pass runs
    in eager, its error is the compiler's. TorchScript alone can fail before
    anything is fused."""
    without_plan: str = "the log shows no plan of an executor"
    """The sentence on a run of which no group and no operator is known."""
    nothing_compiled: tuple[str, str] | None = None
    """Instruction for a run that compiled nothing: the first step, and further
    facts. None where its graphs run in TorchScript."""
    variants: tuple[str, ...] = ()
    """Variants of a bench that go through it, in the order of the table."""
    recipes: tuple[str, ...] = ()
    """Values of ``--recipe``."""
