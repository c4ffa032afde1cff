"""Reasons of Inductor: why an operator is a call, and why two nodes of its
scheduler stayed apart."""

from __future__ import annotations

from typing import Literal

from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause, CallKind
from fusiondoc.model import dataclass, field


@dataclass(frozen=True)
class CompiledCall:
    """Inductor compiled it to a call, not to a loop of a kernel."""

    kind: Literal["compiled_call"] = field(default="compiled_call", init=False)
    call: CallKind
    calls: str | None = None
    """The function that the generated code calls: ``extern_kernels.addmm``."""

    @property
    def is_view(self) -> bool:
        """True if it only returns its input under another type or shape."""
        return self.call is CallKind.VIEW


@dataclass(frozen=True)
class SharedAccess:
    """How two nodes use the elements of a tensor that they share."""

    buffer: str
    """Its name in the generated code."""
    difference: AccessDifference
    """How the first and the second use differ."""
    text: str | None = None
    """Torch's own comparison: ``different offset: 0 v.s. 48``; None where fusiondoc
    compared them."""


@dataclass(frozen=True)
class StayedApart:
    """Two nodes of Inductor's scheduler share a tensor and were not fused."""

    kind: Literal["stayed_apart"] = field(default="stayed_apart", init=False)
    cause: ApartCause
    source: Literal[
        "pair", "members", "no text", "no line", "never tried", "worked out"
    ]
    """``pair``: torch refused these two with a text; ``members``: it refused nodes
    that are parts of them, in an earlier round; ``no text``: it refused these two
    without one; ``no line``: the log has no line on them, so torch refused them
    without a text or did not try them; ``never tried``: it did not try them;
    ``worked out``: for calls, which the scheduler takes out before it tries
    pairs."""
    text: str | None = None
    """Torch's text."""
    op: str | None = None
    """For ``call``: the operator that is a call; for ``between``: the operator that
    stands between, or the first of its node."""
    call: CallKind | None = None
    """Why that operator is a call; None if it is not."""
    accesses: tuple[SharedAccess, ...] = ()
    """For ``access``, and for ``sizes`` and ``reductions`` without a text of torch,
    as far as they are known."""

    @property
    def is_seldom_changed(self) -> bool:
        """True if the operator is a call about which there is little to do."""
        return self.call in _SELDOM_CHANGED


_SELDOM_CHANGED = (
    CallKind.LIBRARY,
    CallKind.RANDOM_SEED,
    CallKind.COLLECTIVE,
    CallKind.EAGER_SUM,
    CallKind.VIEW,
)
