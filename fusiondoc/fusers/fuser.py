"""A fuser: all facts about it that readers of logs, rules and reports need, in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import Literal

from fusiondoc.fusers.knob_rows import FuserDump, Knob, Option, Span, Variable, Version

GivenOverload = Literal[
    "all_dimensions",
    "all_elements",
    "with_indices",
    "without_dim",
    "correction",
    "rounding_mode",
    "decimals",
    "number",
    "number_first",
    "chosen_number",
    "tensor_limits",
    "device",
    "dtype_of_tensor",
    "layout_or_device",
    "other_arguments",
    "not_two_tensors",
    "other_types",
]
"""``all_elements``: of ``max`` and ``min``; ``number``: where a tensor is needed; ``number_first``: before
the tensor; ``chosen_number``: of ``where``; ``tensor_limits``: of ``clamp``; ``device`` to
``other_arguments``: of ``to``; ``other_types``: of the types in ``Overload.types``."""


WhyUnknown = Literal["log", "onednn", "te_version", "te_operator"]
"""Why the reason of an operator is not known: a fuser that logs none has its name here."""


@dataclass(frozen=True)
class Refusals:
    """Lines of the JIT log in which a fusion pass states why it does not take a node."""

    file: str
    """The file of torch that prints them, without folder and ending: ``partition``."""
    mark: bytes
    """How each of these lines begins."""
    form: Pattern[bytes]
    """Group 1 is the text of the cause, group 2 the node as it is printed."""
    causes: Mapping[bytes, tuple[str, str]]
    """Text of a cause -> the code of the finding and the name of the condition (a key of ``Fuser.words``)."""
    other: str
    """The code of a cause that is not known."""


@dataclass(frozen=True)
class WithKnob:
    """Operators that a fuser takes only with a knob on."""

    knob: str
    """As ``fusiondoc knobs`` lists it."""
    operators: frozenset[str]
    words: str
    """The operators in a sentence: "reductions"."""
    in_python: str
    """The line of a program that does the same."""


@dataclass(frozen=True)
class Fuser:
    """A fuser. A new one is an entry of the registry (``fusers/__init__.py``)."""

    name: str
    """As options and reports have it: ``nnc``."""
    title: str
    """How a sentence names it: "NNC", "the legacy fuser"."""
    kinds: tuple[str, ...]
    """``Group.kind`` of its fusion groups: ``CudaFusionGroup``; several where it makes groups
    of several kinds."""
    of_torchscript: bool = True
    """Whether its groups are nodes of TorchScript's plans."""
    heading: str | None = None
    """The title over a list, where it is another: "Legacy fuser"."""
    old_nodes: tuple[str, ...] = ()
    """Kinds that the nodes of its groups, then of the first kind, had in older versions of torch."""
    takes: frozenset[str] = frozenset()
    """Operators as printed that it can take into a group, for some types and arguments, in some version."""
    can_be_requested: bool = True
    """False for a fuser whose logs are read, and that fusiondoc switches on for no run."""
    taken_in: Callable[[Version], frozenset[str]] | None = None
    """The part of ``takes`` that a version of torch has; None where all versions take the same."""
    since: Version | None = None
    """The first version of torch that is known to have it; None where that limits no run."""
    rule_since: Callable[[str], Version | None] | None = None
    """The first version that takes an operator or view; None where all versions take the same."""
    versions: tuple[str | None, ...] = (None,)
    """A release of torch for each set of operators that it takes; None: all have the same."""
    until: Version | None = None
    """The last version of torch that has it; None: the newest does."""
    devices: frozenset[str] = frozenset(("cpu", "cuda"))
    """Types of the devices that it compiles for, as torch prints them."""
    in_training: bool = True
    """Whether it works in runs that record gradients."""
    inference_only: frozenset[str] = frozenset()
    """Operators that it takes only where no gradients are recorded."""
    seldom: frozenset[str] = frozenset()
    """Operators that it takes only with a knob, or only on one device: nothing is lost next to them."""
    pulled_in: frozenset[str] = frozenset()
    """Views that begin no group, and that a group takes in only where nothing else takes their result."""
    idle_casts: frozenset[str] = frozenset()
    """Casts that begin no group where their result has the type of their input."""
    pairs_only: frozenset[str] = frozenset()
    """Operators of which it takes the overload of two tensors alone."""
    one_library_call: bool = False
    """Whether a group holds at most one convolution or product of matrices, and what comes after it."""
    with_knob: WithKnob | None = None
    views_in: Callable[[Version | None], frozenset[str]] | None = None
    """The views that a version takes into a group (None: the newest); None where ``takes`` has them."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Operators of its pass that stand for views in its groups -> these views."""
    dtypes: frozenset[str] | None = None
    """Scalar types of tensors that a group takes; None where that is not known."""
    halves_on: frozenset[str] = frozenset(("cpu", "cuda"))
    """Devices on which it takes half types."""
    numbers_for_tensors: bool | None = None
    """Whether a number does in the place of a tensor in its operators; None: not known."""
    with_dimensions_only: frozenset[str] = frozenset()
    """Reductions of which it takes no overload over all dimensions."""
    by_constant_dimension: frozenset[str] = frozenset()
    """Operators whose `dim` has to be a constant of the graph."""
    sized_reductions: frozenset[str] = frozenset()
    """Reductions whose size it computes alone where nothing else of the result is read."""
    expressions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator -> the forms in which a printed kernel shows it: expressions in order, with commas between."""
    stops_at_side_effects: bool = False
    """Whether its pass moves no operator past a print or a warning, so that groups end there."""
    device_knobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Type of a device -> the knobs that let it fuse there."""
    knob_for_one: str | None = None
    """The knob with its value that makes a single operator a group."""
    knob_to_leave_out: str | None = None
    """The knob that keeps operators out of its groups, with a word for them."""
    partitions: bool = False
    """Whether its groups are partitions that a library computes: a log names their operators and sizes, and
    no kernel."""
    evaluator_without_llvm: bool = False
    """Whether it runs groups on the CPU through an evaluator, where torch is built without LLVM."""
    any_size: bool = False
    """Whether it can compile a group for any size of its tensors."""
    plan_log: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL with which a log holds the graphs of its groups."""
    pass_file: str | None = None
    """The file of torch that prints what its pass does, without folder and ending: ``graph_fuser``."""
    compile_header: str | None = None
    """Header of the graph that it compiles to a kernel."""
    stdout_marks: tuple[bytes, ...] = ()
    """How lines begin that its library prints to stdout."""
    error_marks: tuple[str, ...] = ()
    """Parts of texts of errors that tell that its code, or a kernel that it made, failed."""
    profile_names: tuple[str, ...] = ()
    """Regular expressions for the names of its groups in a profile."""
    variables_set: tuple[str, ...] = ()
    """Environment variables of it that fusiondoc sets."""
    own_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that a run under it needs beside those of its log."""
    log_list: tuple[str, tuple[str, ...]] | None = None
    """The environment variable that lists what it logs, with the words for a run; None: TorchScript's."""
    trace_variable: str | None = None
    """The environment variable that names a folder for its trace."""
    dump_variable: str | None = None
    """The environment variable that makes it print its kernels."""
    refusal_log: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL with which its pass states which operators it rejects, and why."""
    only_profiled: bool = False
    """Whether it fuses only graphs that the profiling executor of torch has profiled."""
    off_by_variable: tuple[str, str] | None = None
    """A variable and its value with which the pass does nothing, whatever a program switches on."""
    off_by_call: str | None = None
    """The call that switches it off in programs."""
    in_builds: Span | None = None
    """The releases whose builds for its devices hold it; None: all do that have it."""
    variable_families: tuple[str, ...] = ()
    """How names of its environment variables begin."""
    printing_variables: tuple[str, ...] = ()
    """Variables, others than those of torch's log, that make it or its library print."""
    knobs: tuple[Knob, ...] = ()
    variables: tuple[Variable, ...] = ()
    options: Mapping[str, tuple[Option, ...]] = field(default_factory=dict)
    """Variable -> the options that may be listed in it; the first variable is that of dumps."""
    package_options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Variable of its package that stands alone -> the words that it may hold."""
    dumps: tuple[FuserDump, ...] = ()
    """What it can print of kernels that is no option of a variable."""
    usual_dumps: tuple[str, ...] = ()
    """Dumps without which a log names no kernel of it."""
    log_level: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL. With less it prints nothing; with more the log grows and holds no more
    facts."""
    log_files: Mapping[str, str] = field(default_factory=dict)
    """File of torch that writes to the JIT log -> what it writes of this fuser."""
    own_log_files: tuple[tuple[str, int, str], ...] = ()
    """Files that only it has: versions, the least level that prints, names."""
    by_default: bool = False
    """Whether it may run where no fuser is chosen."""
    most_dimensions: int | None = None
    """Of a tensor, in its kernels; None without a limit."""
    exact_sizes: bool = False
    """Whether it compiles for exact sizes whatever the fusion strategy of torch is."""
    writes_to_stdout: bool = False
    """Whether it prints to stdout beside what torch logs to stderr."""
    announces_runs: bool = True
    """Whether a log can show that a kernel runs; without it a crash may be of a compile or of a run."""
    pass_start: str | None = None
    """Header of the graph that its pass prints first, whether it makes groups or not."""
    plan_header: str | None = None
    """Header of the graph that its pass leaves."""
    inner_graphs: frozenset[str] = frozenset()
    """Other nodes that its passes make, and that print a graph of their own."""
    guards: frozenset[str] = frozenset()
    """Nodes that check types before its groups; they compute nothing of the program."""
    refusals: Refusals | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Condition that does not hold -> the reason in a sentence. ``{op}`` and ``{text}`` are fields of
    ``Stated`` (model/reasons/stated.py)."""
    overloads: Mapping[GivenOverload, str] = field(default_factory=dict)
    """An overload that it refuses -> the sentence, which names the one that it takes."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """``Argument.problem`` -> the sentence; ``{argument}`` and ``{dtype}`` are fields of ``Argument``."""
    left_out: str | None = None
    """The sentence on an operator that it could take and left out, where its log gives no reason."""
    casts_by_constants: bool = False
    """Whether it takes aten::to only where all arguments are constants."""
    instead: tuple[str, ...] = ()
    """Names of the fusers to try instead, best first."""

    @property
    def prints_kernels(self) -> bool:
        """Whether it can be made to print its kernels or partitions."""
        return bool(self.dumps) or self.dump_variable is not None

    @property
    def pass_headers(self) -> tuple[str, ...]:
        """Headers of the graphs that its pass prints."""
        return tuple(header for header in (self.pass_start, self.plan_header) if header is not None)

    @property
    def nodes(self) -> dict[str, str]:
        """Kind of a node that holds one of its groups (``prim::CudaFusionGroup``) -> ``Group.kind``."""
        if not self.of_torchscript:
            return {}
        return {
            **{f"prim::{kind}": kind for kind in self.kinds},
            **dict.fromkeys(self.old_nodes, self.kinds[0]),
        }
