"""Compositions: a call of torch that a compiler leaves to eager code, and the same
written with operators that it compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Composition:
    """Another way to write a call of torch."""

    of: str
    """The operators that are calls, forward and backward, without ``aten::``."""
    call: str
    """With all arguments by the names that ``after`` reads; those with a default
    may be left out."""
    after: str
    """``size_0`` and ``size_1`` are the parts of an argument ``size``, which may be
    one number for all."""
    inputs: str
    """Arguments to compute both with, as Python: ``x=torch.randn(4, 8), dim=0``."""
    only: Mapping[str, object] = field(default_factory=dict)
    """Values that arguments must have, which ``after`` does not read. Others that
    it does not read must have their defaults."""
    alike: tuple[str, str] | None = None
    """An argument that may also be given if it is equal to another one."""
    module: str | None = None
    """The module of torch.nn that makes the call, with the arguments of its
    constructor; of those that begin with an underscore any value does."""
    parameters: tuple[str, ...] = ()
    """Names that ``after`` reads and the module has as parameters."""
    helper: str = ""
    """Definitions that ``after`` calls."""
    note: str | None = None
    """A condition that a run of it cannot confirm."""
    exact: bool = False
    """The results are equal to the last bit."""

    @property
    def replaces(self) -> frozenset[str]:
        return frozenset(f"aten::{name}" for name in self.of.split())
