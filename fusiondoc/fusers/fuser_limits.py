"""Where and when a fuser works: versions of torch, devices, types and sizes of
tensors."""

from __future__ import annotations

from dataclasses import dataclass

from fusiondoc.fusers.knob_rows import Span, Version


@dataclass(frozen=True)
class FuserLimits:
    """The limits of a fuser beyond single operators. The defaults set none."""

    since: Version | None = None
    """The first version of torch that is known to have it; None if there is no such
    limit."""
    until: Version | None = None
    """The last version of torch that has it; None: the newest does."""
    where: str | None = None
    """Where it works, as advice for a machine on which it does not; None if it
    works wherever torch does."""
    in_builds: Span | None = None
    """The releases whose builds for its devices contain it; None: all that have
    it."""
    devices: frozenset[str] = frozenset(("cpu", "cuda"))
    """Types of the devices that it compiles for, as torch prints them."""
    in_training: bool = True
    """Whether it works in runs that record gradients."""
    frozen_only: bool = False
    """Whether it sees weights only in frozen modules."""
    only_profiled: bool = False
    """Whether it fuses only graphs that the profiling executor of torch has
    profiled."""
    dtypes: frozenset[str] | None = None
    """Scalar types of tensors that a group takes; None where that is not known."""
    halves_on: frozenset[str] = frozenset(("cpu", "cuda"))
    """Devices on which it takes half types."""
    profiled_sizes: bool = False
    """Whether it takes no operator on tensors whose sizes were not always equal
    while they were profiled."""
    numbers_for_tensors: bool | None = None
    """Whether its operators accept a number instead of a tensor; None: not
    known."""
    most_dimensions: int | None = None
    """Most dimensions of a tensor in its kernels; None without a limit."""
    any_size: bool = False
    """Whether it can compile a group for any size of its tensors."""
    exact_sizes: bool = False
    """Whether it compiles for exact sizes, independent of torch's fusion
    strategy."""
    evaluator_without_llvm: bool = False
    """Whether it runs groups on the CPU in an interpreter, if torch is built
    without LLVM."""
    partitions: bool = False
    """Whether its groups are partitions that a library computes: a log then names
    their operators and sizes, but no kernel."""
    joins_readers: bool = False
    """Whether its pass joins operators that read one tensor, though neither takes
    the other's result."""
    merges_neighbours: bool = False
    """Whether consecutive groups are merged in the end although they share nothing,
    and its pass is fully known (``createFusionGroups`` of
    torch/csrc/jit/passes/tensorexpr_fuser.cpp, 1.12 to 2.13)."""
    stops_at_side_effects: bool = False
    """Whether its pass moves no operator past a print, a warning or the end of a
    ``with`` block, so that groups end there (``AliasDb::tryMove`` of
    torch/csrc/jit/ir/alias_analysis.cpp)."""
