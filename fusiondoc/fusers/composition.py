"""Compositions: a call of torch that a compiler leaves to eager code, and the same
written with operators that it compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Composition:
    """Another way to write a call of torch."""

    of: str
    """The operators that are calls, in the forward and the backward pass, without
    ``aten::``."""
    call: str
    """The call, with all arguments by the names that ``after`` reads; those with a
    default may be left out."""
    after: str
    """The replacement. ``size_0`` and ``size_1`` are the parts of an argument
    ``size``, which may be one number for all."""
    inputs: str
    """Arguments for a test that computes both, as Python: ``x=torch.randn(4, 8),
    dim=0``."""
    only: Mapping[str, object] = field(default_factory=dict)
    """Required values of arguments that ``after`` does not read. Other arguments
    that it does not read must have their defaults."""
    alike: tuple[str, str] | None = None
    """An argument that may also be passed if it is equal to another one."""
    module: str | None = None
    """The module of torch.nn that makes the call, with the arguments of its
    constructor; those that begin with an underscore may have any value."""
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
