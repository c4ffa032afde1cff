"""Which operators a fuser takes into its groups, by version of torch and
arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusiondoc.fusers.knob_rows import Version


@dataclass(frozen=True)
class WithKnob:
    """Operators that a fuser takes only with a knob on."""

    knob: str
    """The knob's name in ``fusiondoc knobs``."""
    operators: frozenset[str]
    words: str
    """The operators in a sentence: "reductions"."""
    in_python: str
    """The line of Python that does the same."""


@dataclass(frozen=True)
class TakenOperators:
    """The operators that a fuser takes. Names are as printed: ``aten::add``."""

    takes: frozenset[str] = frozenset()
    """Operators as printed that it can take into a group, for some types and
    arguments, in some version."""
    taken_in: Callable[[Version], frozenset[str]] | None = None
    """The part of ``takes`` that a version of torch has; None if all versions take
    the same."""
    rule_since: Callable[[str], Version | None] | None = None
    """The first version that takes an operator or view; None if all versions take
    the same."""
    versions: tuple[str | None, ...] = (None,)
    """A release of torch for each different set of operators that it takes; None:
    all have the same."""
    inference_only: frozenset[str] = frozenset()
    """Operators that it takes only if no gradients are recorded."""
    seldom: frozenset[str] = frozenset()
    """Operators that it takes only with a knob, or only on one device: no fusion is
    lost next to them."""
    pulled_in: frozenset[str] = frozenset()
    """Views that start no group; a group takes them in only if nothing else uses
    their result."""
    idle_casts: frozenset[str] = frozenset()
    """Casts that start no group if their result has the type of their input."""
    pairs_only: frozenset[str] = frozenset()
    """Operators that it takes only in the overload with two tensors."""
    one_library_call: bool = False
    """Whether a group holds at most one convolution or matrix product, and
    operators after it."""
    with_knob: WithKnob | None = None
    views_in: Callable[[Version | None], frozenset[str]] | None = None
    """The views that a version takes into a group (None: the newest); None if they
    are in ``takes``."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Operators of its pass that replace views in its groups -> these views."""
    with_dimensions_only: frozenset[str] = frozenset()
    """Reductions whose overload over all dimensions it does not take."""
    by_constant_dimension: frozenset[str] = frozenset()
    """Operators whose `dim` must be a constant of the graph."""
    sized_reductions: frozenset[str] = frozenset()
    """Reductions whose size it computes alone if nothing else of the result is
    read."""
    sized_by_broadcast: frozenset[str] = frozenset()
    """Operators whose result size the fuser takes to be the broadcast size of their
    inputs, where a gradient reads only the size of a tensor computed in a group."""
    casts_by_constants: bool = False
    """Whether it takes aten::to only if all arguments are constants."""
    expressions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator -> the forms in which a printed kernel shows it: expressions in
    order, separated by commas."""
