"""What fuses beside TorchScript and its fusers, and what a script did with them: in runs that have it.

What AOTAutograd made of the functions of a run (and modules that come to it by themselves), and Transformer
Engine's fusers, their plans and what their operators take. Of AOTAutograd a tensor is counted once: a view of
an input or of another saved tensor needs no memory of its own. The finding codes on Transformer Engine are
here, of which model/codes.py makes codes. Of a script: its models, its steps, and what torch.compile took.
"""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.source import last_name


@dataclass(frozen=True)
class AotNode:
    """A node of a graph. ``inputs``: names of the nodes that it reads."""

    name: str
    op: str | None
    """None for inputs of the graph."""
    user_source: str | None
    type: str | None
    """Such as ``float32[8,128]``; None for what is no tensor."""
    bytes: int | None
    inputs: tuple[str, ...]
    group: str | None
    """Id of the TorchScript fusion group that it is in."""
    reason: str | None
    """Code of the reason why it is in none."""


@dataclass(frozen=True)
class AotGraph:
    """A graph in the order of its operators."""

    phase: str
    """"joint", "forward" or "backward"."""
    source: str | None
    """The name that TorchScript has for its code, such as ``<eval_with_key>.7``; None if it was never
    scripted."""
    operators: int
    """Without inputs, and without taking results of an operator apart."""
    fused: int
    """Operators in TorchScript fusion groups."""
    groups: tuple[str, ...]
    """Ids of these groups."""
    nodes: tuple[AotNode, ...]
    cut: int = 0
    """Nodes that were left out because there are too many."""


@dataclass(frozen=True)
class AotValue:
    """A tensor that the forward graph keeps for the backward graph, or that both compute."""

    name: str
    op: str | None
    """None for an input."""
    user_source: str | None
    type: str | None
    bytes: int | None
    """Its own; 0 for a view of what is kept or was given anyway."""


@dataclass(frozen=True)
class Partition:
    """How a joint graph is parted into forward and backward."""

    name: str
    """The partition function."""
    saved: tuple[AotValue, ...]
    """Computed in the forward graph and kept until the backward graph has run."""
    saved_bytes: int
    saved_inputs: tuple[AotValue, ...]
    """Inputs that the backward graph reads: they are not written again."""
    recomputed: tuple[AotValue, ...]
    """Computed in the forward graph and once more in the backward graph."""
    recomputed_bytes: int
    """Bytes of their results: what keeping them would take."""


@dataclass(frozen=True)
class AotFunction:
    """A place of the program that hands functions to AOTAutograd. Graphs and partitions are those of its
    first compilation with a gradient, else of its first one."""

    id: str
    name: str
    how: str
    """What was called: ``memory_efficient_fusion``, ``aot_function``, ``torch.compile`` ..."""
    user_source: str | None
    """Where."""
    wraps: int | None
    """How often; None where the run did not come to its end."""
    calls: int | None
    """Of what that returned; None where it is not counted (torch.compile)."""
    compiles: int
    shapes: tuple[str, ...]
    """The arguments of its calls, each once."""
    graphs: tuple[AotGraph, ...]
    partition: Partition | None
    """None where no gradient was needed."""
    default: Partition | None
    """What torch's default partition of the same joint graph saves; None where that could not be tried."""
    changed: tuple[str, ...]
    """Arguments that it changes in place."""
    shared: tuple[str, ...]
    """Arguments and results that share memory."""
    fixed_sizes: tuple[str, ...]
    """Nodes with sizes of the first call's arguments written into them."""
    failure: str | None
    """The first error of compiling it."""
    processes: int = 1
    """Processes of the program that used it; wraps, calls and compilations are those of one of them."""

    def graph(self, phase: str) -> AotGraph | None:
        """Its graph of a phase."""
        return next((graph for graph in self.graphs if graph.phase == phase), None)


@dataclass(frozen=True)
class FusedModules:
    """The modules of one class that fuse themselves (xFormers' ``NVFused...``), and what they did."""

    kind: str
    """The class."""
    layers: tuple[str, ...]
    """Their module paths, as far as they are known."""
    calls: int
    fused: int
    """Calls that went to AOTAutograd."""
    wraps: int
    """Calls of memory_efficient_fusion in them."""
    eager: tuple[str, ...]
    """Why the others did not, each once."""


@dataclass(frozen=True)
class TeTime:
    """An operator of a plan on the GPU, in one call: kernels, copies and fills, and microseconds, as planned
    and (``alone_``) of its basic operators when every fusion is left out. From torch's profiler."""

    kernels: int
    copies: int
    us: float
    alone_kernels: int | None = None
    alone_us: float | None = None


@dataclass(frozen=True)
class TeStep:
    """An operator of a plan: a fused one, or a basic one."""

    op: str
    operators: tuple[int, ...]
    """Which of the fuser's basic operators, from 0."""
    fused: bool
    own: bool
    """Of the program's own."""
    group: str | None
    """Id of its row in ``groups``."""
    time: TeTime | None


@dataclass(frozen=True)
class TePlan:
    """What a fuser planned under a recipe, in training (gradients on) or inference."""

    recipe: str | None
    training: bool
    calls: int | None
    forward: tuple[TeStep, ...]
    backward: tuple[TeStep, ...]
    """In the order of the forward pass; of training only, from the first operator that needs gradients."""


@dataclass(frozen=True)
class TeOperator:
    """A basic operator: its class, its path in the model and the line that makes it."""

    op: str
    path: str | None
    source: str | None


@dataclass(frozen=True)
class TeFuser:
    """A run of operators that are fused among themselves, and with nothing else."""

    layer: str | None
    """The sequence that it belongs to; None for operators that were called by themselves."""
    operators: tuple[TeOperator, ...]
    plans: tuple[TePlan, ...]


@dataclass(frozen=True)
class TeSplit:
    """A module that is no operator of te.ops, and separates the operators around it."""

    module: str
    path: str | None
    layer: str
    """Path of the sequence; empty where it is no part of a model that is known."""
    source: str | None = None
    """The line that makes the sequence."""
    of: str | None = None
    """The Python module that its class is of: ``torch.nn.modules.dropout``."""

    @property
    def place(self) -> str:
        """``seq.2``; ``2 in the sequence of train.py:12`` where that is no part of a model that is known."""
        line = last_name(self.source or "")
        inside = f" in the sequence of {line}" if line and not self.layer else ""
        return (self.path or self.layer or "?") + inside


@dataclass(frozen=True)
class TePass:
    """Kernels and microseconds on the GPU of a whole pass, as planned (``fused``) or without any fusion."""

    recipe: str | None
    training: bool
    fused: bool
    kernels: float | None
    us: float | None


@dataclass(frozen=True)
class TeReport:
    """What Transformer Engine planned."""

    version: str | None
    ran: bool
    """False where the inputs were no GPU tensors: a plan, not a run."""
    fusers: tuple[TeFuser, ...]
    splits: tuple[TeSplit, ...]
    own_fusions: tuple[str, ...]
    """Fusion functions that the program registered."""
    passes: tuple[TePass, ...]

    @property
    def in_words(self) -> str:
        """``Transformer Engine 2.20.2``, and whether it only planned."""
        planned = "" if self.ran or not self.fusers else ", planned on the CPU: a plan, not a run"
        return f"Transformer Engine {self.version or 'of unknown version'}{planned}"


OF_TE: tuple[tuple[str, str, str, Remedy | None], ...] = (
    ("FD111", "warning", "No operator of Transformer Engine's te.ops was called", None),
    ("FD112", "note", "Transformer Engine planned on the CPU: a plan, not a run", None),
    ("FD113", "warning", "A module splits a te.ops.Sequential", None),
    ("FD114", "note", "ForwardLinearBiasActivation holds no activation", None),
    ("FD115", "note", "Transformer Engine plans differently by recipe or mode", None),
    ("FD116", "warning", "Transformer Engine's plan and the table of rules differ", None),
    ("FD117", "note", "The program registered fusions of its own", None),
    ("FD118", "warning", "Transformer Engine keeps a plan that was made for other weights", None),
    (
        "FD241",
        "warning",
        "Transformer Engine fuses it in float16 and bfloat16 only",
        Remedy("Make the operator in bfloat16: te.ops.Linear(..., dtype=torch.bfloat16)."),
    ),
    (
        "FD242",
        "warning",
        "Transformer Engine fuses it only in place, or only not in place",
        Remedy(
            "Change in_place of the AddExtraInput or MakeExtraOutput as the reason states, if nothing"
            " else reads the tensor that is changed."
        ),
    ),
    (
        "FD243",
        "note",
        "Transformer Engine does not fuse it in this tensor-parallel mode",
        nothing(
            "Nothing, if the model needs this mode: the processes exchange tensors between the operators."
        ),
    ),
    (
        "FD244",
        "note",
        "Transformer Engine fuses it only under another recipe",
        Remedy("It is fused where the gradient is quantized: run under a recipe, such as --recipe delayed."),
    ),
    (
        "FD245",
        "note",
        "Transformer Engine finds no operators next to it to fuse it with",
        Remedy("Put the operators that the rule names next to each other, if the model allows it."),
    ),
    (
        "FD246",
        "note",
        "Transformer Engine has no rule for it in this pass",
        nothing(
            "Nothing: it runs as kernels of its own.",
            "te.LayerNormLinear and te.LayerNormMLP have such fusions built in.",
        ),
    ),
    (
        "FD247",
        "note",
        "Userbuffers are not in use",
        Remedy(
            "Initialise torch.distributed and tensor parallelism, and te.initialize_ub, before the passes."
        ),
    ),
    (
        "FD248",
        "note",
        "The grouped MLP needs another GPU, recipe or setting",
        nothing(
            "Nothing on this GPU: NVTE_CUTEDSL_FUSED_GROUPED_MLP=1 and a GPU of compute capability"
            " 10 fuse it."
        ),
    ),
    (
        "FD249",
        "note",
        "Transformer Engine left it basic although the rules take it",
        Remedy("Please report it with fusiondoc bundle: the table of rules may be wrong for this version."),
    ),
)
"""Code, severity, title, and remedy, where one answer fits every case."""

NOTHING_LOST = frozenset({"FD246"})
"""Reasons of operators that no fused operator could take."""


@dataclass(frozen=True)
class ScriptModel:
    """A model that the program scripted, traced or loaded, or several of one type."""

    name: str
    """Its class, function or archive; where there are several, layers begin with it."""
    how: str
    """"scripted", "traced" or "loaded"; ", frozen" behind it if that was done too."""
    at: str | None
    """``file:line`` that made the first of them."""
    count: int
    planned: bool | None
    """Whether an execution plan was made of it by the end of the run; None where it was gone by then."""
    groups: tuple[str, ...]
    """Ids of the rows of groups that are in it."""
    operators_outside: int
    """Tensor operators of it in no group."""


@dataclass(frozen=True)
class ScriptRun:
    """What the program did."""

    models: tuple[ScriptModel, ...]
    steps: int
    """How many steps it took; 0 where nothing tells what a step is."""
    step_by: str | None
    """What a step is: "AdamW.step", or the function named by ``--step-function``."""
    compiled_frames: int
    """Python functions that torch.compile took."""
    compiled_graphs: int
    inductor_kernels: int
    reached: bool
    """Whether TorchScript ran anything that a plan or a profile was made of."""

    @property
    def instead(self) -> str:
        """What it ran where TorchScript was not reached: "eager PyTorch, 4 times SGD.step"."""
        taken = f", {self.steps} times {self.step_by}" if self.steps else ""
        if not self.compiled_graphs:
            return f"eager PyTorch{taken}"
        kernels = f", inductor kernels: {self.inductor_kernels}" if self.inductor_kernels else ""
        functions, graphs = self.compiled_frames, self.compiled_graphs
        return f"torch.compile (functions: {functions}, graphs: {graphs}{kernels}){taken}"
