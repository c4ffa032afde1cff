"""What to do now: the changes of a report's plan, and the kinds of change there are to a program or a run."""

from __future__ import annotations

from enum import Enum

from fusiondoc.model.quick_dataclass import dataclass


class ChangeKind(Enum):
    """What is changed. The first ones are changes of source code, the others of how it is run."""

    OUT_OF_PLACE = "out of place"
    """``x += y`` becomes ``x = x + y``, ``x.relu_()`` becomes ``x = x.relu()``."""
    NOT_INPLACE = "inplace=False"
    """The flag ``inplace`` of a module or a function of torch.nn."""
    RECIPE = "recipe"
    """An operator is written with others, by the table of ``diagnosis/recipes.py``."""
    DIMENSIONS = "dim="
    """The dimensions of a reduction are named: ``x.mean()`` becomes ``x.mean([0, 1])``."""
    CONSTANT = "constant argument"
    """An argument (a flag, an axis, a size) becomes a constant."""
    NUMBER = "number"
    """A tensor without dimensions becomes a number, or ``.item()`` goes out of the region."""
    DTYPE = "dtype"
    """Tensors of a block get a dtype that the fuser takes."""
    DEVICE = "device"
    """Tensors are moved to the device of the others."""
    ANNOTATION = "annotation"
    """A type or ``torch.jit.Final`` that lets TorchScript take a branch out."""
    MOVE_VIEW = "view at the edge"
    """A view is done before or after the operators that it separates."""
    MOVE = "moved"
    """An operator without a rule is done before or after those that it separates."""
    BRANCH = "branch"
    """A branch on the value of a tensor becomes ``torch.where``."""
    SPLIT = "split"
    """A function that mixes what fuses with what does not is split into several."""

    FUSER = "fuser"
    """Another fuser, or the fuser is switched on."""
    KNOB = "knob"
    """A setting of torch: ``--knob NAME=VALUE``."""
    RUNS = "runs"
    """More passes, so that profiling comes to its end."""
    FREEZE = "freeze"
    """``torch.jit.freeze(scripted.eval())``: for inference."""
    EVAL = "eval"
    """``model.eval()``: it changes what the model computes."""
    NO_GRAD = "torch.no_grad()"
    """Inference without gradients."""
    TRACE = "trace"
    """The model is traced instead of scripted."""
    STATIC_SHAPES = "static shapes"
    """Plans for the shapes that come, not for any."""
    LOG = "log"
    """Another log has to be made: this one does not hold what the answer needs."""
    REPAIR = "repair"
    """An error comes first: a crash, a fallback, wrong numbers."""

    @property
    def in_source(self) -> bool:
        """Whether it changes source code."""
        return self in _IN_SOURCE


_IN_SOURCE = frozenset(list(ChangeKind)[: list(ChangeKind).index(ChangeKind.FUSER)])


@dataclass(frozen=True)
class Edit:
    """A line of the user's own files, as it stands and as it is to be, with its indentation."""

    file: str
    line: int
    """From 1."""
    before: str
    after: str


@dataclass(frozen=True)
class PlannedChange:
    """One thing to do, in the user's words, with what it brings."""

    change: str
    """What to do, as a sentence without a full stop: ``Write x = x + y instead of x += y``."""
    kind: ChangeKind
    where: str | None
    """``file:line`` of the user's code, the first of several; None where the log does not tell it."""
    before: str | None
    """The user's line as it stands, without its indentation; where its file is not at hand, how the operator
    is called. None for a change of the run."""
    after: str | None
    """The same, changed."""
    unlocks: str | None
    """What it lets fuse: ``8 groups of add+relu in layer1 to layer4``."""
    gain_ms: float | None
    """Milliseconds of a step that it can save at most, by the profiled run; None without one."""
    gain_bytes: int | None
    """Bytes that need not be written and read again in a run, by the types in the log; None where they do not
    tell."""
    command: str
    """What proves it, quoted for a POSIX shell."""
    operators: int = 0
    """How many operators it lets fuse."""
    ops: tuple[str, ...] = ()
    """The operators that are changed."""
    codes: tuple[str, ...] = ()
    """The findings that it takes away."""
    note: str | None = None
    """What has to hold, or what else is to be known: ``the line is in torchvision: change a copy``."""
    edits: tuple[Edit, ...] = ()
    """Every line of the user's files that it changes, where its file is at hand."""
    python: str | None = None
    """Lines of Python that do the same from outside or for good; a comment before them says where they go."""
