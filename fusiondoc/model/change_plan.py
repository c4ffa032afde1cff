"""Changes of a program or of how it is run: their kinds, the plan of a report (the
recommended changes), the runs of ``--try``, and the result of ``fusiondoc fix``
(``fusiondoc.fix/1``): the tried changes with their outcomes, and the figures of
each version of the program."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from fusiondoc.model import dataclass, field
from fusiondoc.model.bench import Ratio
from fusiondoc.model.remedies import AS_REQUESTED, Setting

NEW_LOG, NEW_FOLDER = "new.log", "new"
"""Names that commands in advice use for the log, or the folder of logs, that the
user is to record."""


class ChangeKind(Enum):
    """Kinds of changes: first those of source code, then those of how the program
    is run."""

    OUT_OF_PLACE = "out of place"
    """``x += y`` becomes ``x = x + y``, ``x.relu_()`` becomes ``x = x.relu()``."""
    NOT_INPLACE = "inplace=False"
    """The flag ``inplace`` of a module or a function of torch.nn."""
    RECIPE = "recipe"
    """An operator is written with others, by the table of
    ``changes/recipes.py``."""
    DIMENSIONS = "dim="
    """The dimensions of a reduction are named: ``x.mean()`` becomes ``x.mean([0,
    1])``."""
    CONSTANT = "constant argument"
    """An argument (a flag, an axis, a size) becomes a constant."""
    NUMBER = "number"
    """A tensor without dimensions becomes a number, or ``.item()`` is moved out of
    the region."""
    DTYPE = "dtype"
    """Tensors of a block get a dtype that the fuser takes."""
    DEVICE = "device"
    """Tensors are moved to the device of the others."""
    ANNOTATION = "annotation"
    """A type annotation or ``torch.jit.Final`` that lets TorchScript remove a
    branch."""
    MOVE_VIEW = "view at the edge"
    """A view is moved before or after the operators that it separates."""
    MOVE = "moved"
    """An operator without a rule is moved before or after the operators that it
    separates."""
    BRANCH = "branch"
    """A branch on the value of a tensor becomes ``torch.where``."""
    COMPOSITION = "composition"
    """An operator that a compiler leaves to eager code is written with operators
    that it compiles."""
    LAYOUT = "layout"
    """A copy of a tensor to another layout is removed, or added, so that all
    kernels use it in one layout."""
    SPLIT = "split"
    """A function that mixes operators that fuse with others is split into
    several."""

    FUSER = "fuser"
    """Another fuser, or the fuser is switched on."""
    KNOB = "knob"
    """A setting of torch is changed: ``--knob NAME=VALUE``."""
    RUNS = "runs"
    """More passes, so that profiling is completed."""
    FREEZE = "freeze"
    """``torch.jit.freeze(scripted.eval())``: for inference."""
    EVAL = "eval"
    """``model.eval()``: it changes what the model computes."""
    NO_GRAD = "torch.no_grad()"
    """Inference without gradients."""
    TRACE = "trace"
    """The model is traced instead of scripted."""
    DYNAMIC_SHAPES = "dynamic shapes"
    """One compilation for any size, not one for each: ``--dynamic``."""
    STATIC_SHAPES = "static shapes"
    """Plans for the shapes that occur, not for any shape."""
    LOG = "log"
    """Another log has to be recorded: this one lacks lines that the answer
    needs."""
    REPAIR = "repair"
    """An error has to be mended first: a crash, a fallback, wrong numbers."""

    @property
    def in_source(self) -> bool:
        """True if it changes source code."""
        return self in _IN_SOURCE


_IN_SOURCE = frozenset(list(ChangeKind)[: list(ChangeKind).index(ChangeKind.FUSER)])


@dataclass(frozen=True)
class Edit:
    """A line of the user's own files before and after the change, with its
    indentation."""

    file: str
    line: int
    """From 1."""
    before: str
    after: str
    """The new text; several lines are separated by line ends. "" if the line is
    removed together with its line end."""


@dataclass(frozen=True)
class Proof:
    """Runs that proved the effect of a change: more is fused, and no result
    differs. Counts are sums over instances."""

    by: str
    """The command that ran them: ``fusiondoc fix`` or ``fusiondoc diagnose
    --try``."""
    change: str
    """The change that these runs tested, in the words of that command; it can
    include more than this planned change."""
    groups_before: int
    """Groups without the change, but with all changes kept before it."""
    groups: int
    ops_fused_before: int
    ops_fused: int
    same_results: bool | None
    """True if its results were compared and none differs beyond rounding; None if
    they were not compared."""
    speed: Ratio | None = None
    """Speed relative to the unchanged program, with this change and all kept before
    it; None if it was not timed."""


@dataclass(frozen=True)
class PlannedChange:
    """One recommended change, worded for the user, with its expected gain."""

    change: str
    """The instruction, as a sentence without a full stop: ``Write x = x + y instead
    of x += y``."""
    kind: ChangeKind
    where: str | None
    """``file:line`` of the user's code, of the first line if several change; None
    if the log does not show it."""
    before: str | None
    """The user's current line, without its indentation; if its file is not
    available, the call of the operator. None for a change of the run."""
    after: str | None
    """``before`` with the change made."""
    unlocks: str | None
    """The operators that it lets fuse: ``8 groups of add+relu in layer1 to
    layer4``."""
    gain_ms: float | None
    """Milliseconds of a step that it can save at most, by the profiled run; None
    without one."""
    gain_bytes: int | None
    """Bytes that need not be written and read again in a run, by the types in the
    log; None if the log lacks these types."""
    command: str
    """The command that tests the change, quoted for a POSIX shell."""
    operators: int = 0
    """Number of operators that it lets fuse."""
    groups: int | None = None
    """Change of the number of groups in the run, negative if groups are joined;
    None if it is unknown."""
    together_with: tuple[int, ...] = ()
    """Numbers in the plan, from 1, of other changes to the same groups: the figures
    hold only once these are made too."""
    ops: tuple[str, ...] = ()
    """The kinds of the operators that are changed."""
    codes: tuple[str, ...] = ()
    """Codes of the findings that it removes."""
    note: str | None = None
    """A condition of the change, or a remark: ``the line is in torchvision: change
    a copy``."""
    edits: tuple[Edit, ...] = ()
    """Every line that it changes in those of the user's files that are
    available."""
    also_at: tuple[str, ...] = ()
    """``file:line`` of the other lines that change, besides ``where``."""
    python: str | None = None
    """Lines of Python that make the same change from outside or permanently; a
    comment before them names where they go."""
    proof: Proof | None = None
    """The runs of ``fix`` and ``--try`` of this capture that proved it; None if it
    was not run."""
    setting: Setting = field(default=AS_REQUESTED, metadata={"json": False})
    """The setting of the run that makes the change; empty for a change of the
    program."""


@dataclass(frozen=True)
class Try:
    """A run of ``diagnose --try`` with one change; the first is the run without a
    change."""

    change: str
    codes: tuple[str, ...]
    """The findings that suggest the change."""
    groups: int
    ops_fused: int
    unfused: int
    fallbacks: int
    gb_per_s: float | None
    """Median over the kernels."""
    steady_seconds: float | None
    """Median time of a steady pass, backward included; None if it does not reflect
    speed."""
    exit: int | None
    """The exit status that this run would have had as a run by itself; None if a
    signal ended it."""
    problem: str | None = None
    """Why it failed."""
    wrong: int | None = None
    """Results that differ from eager, over all passes; None without
    ``--verify``."""
    capture: str | None = None
    """Its capture: a folder inside the capture of the run."""
    speed: Ratio | None = None
    """Speed relative to the run that it is compared with, timed alternately and
    without logs; None if it was not timed."""
    against: int = 0
    """Index of the try that it is compared with: a frozen module is compared with a
    frozen one."""
    frozen: bool = False
    """The module was frozen for this run."""
    setting: Setting = field(default=AS_REQUESTED, metadata={"json": False})
    """How its run differs from the first one; empty for a change of the program."""

    def helps(self, base: Try) -> bool:
        """True if this run is faster than ``base``, or fuses more without being
        slower; False if it failed, gave wrong results or fell back more often."""
        if (
            self.problem is not None
            or self.wrong
            or self.fallbacks > base.fallbacks
        ):
            return False
        if self.speed is not None and self.speed.differs:
            return self.speed.value > 1
        fewer = self.unfused < base.unfused or self.groups < base.groups
        return self.ops_fused > base.ops_fused or (
            fewer and self.ops_fused >= base.ops_fused
        )


SCHEMA = "fusiondoc.fix/1"

MOST_TRIES = 24
"""Default of ``--tries``: runs of changed programs."""


MOST_TOGETHER = 8
"""Most runs of changes that did not help alone: several at once, or one of
several."""


class ChangeOutcome(Enum):
    """The result of trying a change; its value is the phrase that reports show."""

    KEPT = "kept"
    NO_GAIN = "fuses no more"
    WRONG = "computes something else"
    SLOWER = "slower"
    FAILED = "fails"


@dataclass(frozen=True)
class Version:
    """The figures of a run of one version of the program. Counts are sums over
    instances."""

    groups: int
    ops_fused: int
    launches: int
    """Fusion groups plus operators outside groups in the forward pass: about the
    number of kernels; a branch or a loop does not count. If nothing is fused in
    training, no plan of TorchScript has the backward pass, so it is counted on
    neither side; for torch.compile it is (``of_gradients``)."""
    fallbacks: int
    wrong: tuple[str, ...] = ()
    """Results that differ from those of the unchanged program, by name, and results
    that the fuser computes wrong."""
    random: tuple[str, ...] = ()
    """Random operators that drew numbers."""
    by_statistics: bool = False
    """Fused results were compared with eager ones by statistics, since both draw
    random numbers."""
    drew_otherwise: str | None = None
    """How it was compared with the unchanged program, if it draws other random
    numbers from the same seed: "same draws" (by value, with numbers that depend on
    the shape alone) or "statistics"; else None."""
    allowed: float | None = None
    """Allowed difference of results relative to their size, if rounding alone
    exceeds the usual tolerances."""
    problem: str | None = None
    """Why it failed."""
    timeable: str | None = field(default=None, metadata={"json": False})
    """The fuser to time it with; None if a time would be meaningless."""
    outside: int = 0
    """Number of operators outside groups that ran, forward and backward."""
    unfused: frozenset[str] = field(default=frozenset(), metadata={"json": False})
    """Kinds of the operators outside groups that ran."""
    interpreted: bool = False
    """Groups ran through an evaluator instead of kernels, so the speed is
    meaningless."""
    graph_breaks: int = 0
    """Lines at which torch.compile ended a graph."""
    recompiles: int = 0
    """Compilations of a function after its first one."""
    bytes_moved: int | None = None
    """Bytes that the kernels and calls of torch.compile's graphs read and write in
    a run; None if they are unknown."""
    of_gradients: bool = False
    """``launches`` includes the backward pass."""

    def better_than(self, other: Version, fewer: bool = False) -> bool:
        """True if this version has no more fallbacks and launches than ``other``,
        and fewer graph breaks and recompilations; or, with as many of these, moves
        fewer bytes, or has fewer launches because groups hold more of the
        operators, or has as many launches and more operators in groups.

        Args: fewer: operators were replaced by several, so that more operators in
            groups alone is no gain.
        """
        if self.fallbacks > other.fallbacks or self.launches > other.launches:
            return False
        interrupted, before = (
            self.graph_breaks + self.recompiles,
            other.graph_breaks + other.recompiles,
        )
        if interrupted != before:
            return interrupted < before
        if self._moves_less_than(other):
            return True
        if self.launches < other.launches:
            return self._fuses_more_than(other)
        return not fewer and self.ops_fused > other.ops_fused

    def _moves_less_than(self, other: Version) -> bool:
        if self.bytes_moved is None or other.bytes_moved is None:
            return False
        return self.bytes_moved < other.bytes_moved

    def _fuses_more_than(self, other: Version) -> bool:
        """True if fusion saves more launches in proportion to those that remain:
        never if nothing is fused, nor if only an operator of a group was
        removed."""
        saved, saved_before = (
            self.ops_fused - self.groups,
            other.ops_fused - other.groups,
        )
        return saved * other.launches > saved_before * self.launches


@dataclass(frozen=True)
class TriedFix:
    """A change that was tried on top of those kept before it."""

    kind: ChangeKind
    """The kind of the first change, if several lines are changed together."""
    change: str
    """The change as a title, in the words of the program."""
    where: tuple[str, ...]
    """``file:line`` of the changed lines."""
    notes: tuple[str, ...]
    """Conditions of the change, and remarks."""
    outcome: ChangeOutcome
    before: Version
    after: Version
    speed: Ratio | None = None
    """Speed of the program with this change and all kept before it, relative to the
    unchanged one; None if it was not timed."""
    edits: tuple[Edit, ...] = ()
    """The lines of the user's files that it changes, as they are in the unchanged
    program."""
    ops: tuple[str, ...] = ()
    """The kinds of the operators that it changes; empty if it concerns none in
    particular."""
    setting: Setting = AS_REQUESTED
    """The setting of the run that makes the change, instead of edits or besides
    them."""


@dataclass(frozen=True)
class Fixes:
    """The result of ``fusiondoc fix``."""

    target: str
    unchanged: Version
    together: Version
    """The version with all kept changes."""
    tried: tuple[TriedFix, ...]
    diff: str
    """Unified diff of the user's files."""
    described: tuple[str, ...] = ()
    """Possible changes that are not made: of lines in packages, or in files that
    cannot be read."""
    speed: Ratio | None = None
    """Speed with all kept changes, relative to the unchanged program."""
    untried: int = 0
    """Number of changes that were not tried because of the limit of tries."""
    together_tries: int = 0
    """Number of runs of changes that did not help in their first form: several at
    once, or one part of several."""
    settings: tuple[str, ...] = ()
    """Kept changes that change no file, as options of the command:
    ``--backward``."""
    interrupted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the unchanged program: versions, the GPU."""
    fuser: str | None = None
    """The fuser that made groups in the unchanged program."""
    diagnose: str | None = None
    """The command that reports on the unchanged program."""
    schema: str = SCHEMA

    @property
    def kept(self) -> tuple[TriedFix, ...]:
        fixes = []
        for one in self.tried:
            if one.outcome is ChangeOutcome.KEPT:
                fixes.append(one)
        return tuple(fixes)


@dataclass(frozen=True)
class KeptResults:
    """Results of the program without a fuser: saved to ``file``, or compared with
    the results in it (``fix``)."""

    file: str
    compare: bool
