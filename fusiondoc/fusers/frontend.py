"""A frontend: all facts about it that options, readers, rules and reports need, in
one object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Frontend:
    """A way from a program to fusion groups. A new frontend is an entry of the
    registry (``fusers/__init__.py``)."""

    name: str
    """Its name in ``--frontend`` and ``Report.frontend``: ``aot``."""
    title: str
    """Its name in a sentence that counts groups of several frontends:
    "TorchScript"."""
    module: str | None = None
    """The package that contains it, as Python imports it; None for torch."""
    can_be_requested: bool = True
    """False for a frontend whose logs are read, but that no run of fusiondoc
    chooses."""
    fuser: str | None = None
    """``FuserState.effective`` of a run under its own fuser; None if the fusers of
    TorchScript fuse its graphs."""
    fuser_title: str | None = None
    """The name of that fuser in sentences, if it is no entry of the registry of
    fusers."""
    group_prefix: str | None = None
    """The prefix of ``Group.kind`` and of the operators of that fuser. None if the
    groups are TorchScript's."""
    switched_by_package: bool = False
    """Whether its package fuses without a switch of torch: then a run is neither
    repeated without the fuser nor timed under others."""
    compiles_python: bool = False
    """Whether its graphs are made from Python in the first pass: if that pass
    succeeds in eager, its error is the compiler's. TorchScript alone can fail
    before anything is fused."""
    without_plan: str = "the log shows no plan of an executor"
    """The sentence for a run without any known group or operator."""
    nothing_compiled: tuple[str, str] | None = None
    """Instruction for a run that compiled nothing: the first step, and further
    facts. None where its graphs run in TorchScript."""
    variants: tuple[str, ...] = ()
    """Variants of a bench that go through it, in the order of the table."""
    recipes: tuple[str, ...] = ()
    """Values of ``--recipe``."""
