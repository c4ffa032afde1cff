"""The dumps that carry text: how each begins, which lines it may have, how it ends, what it is printed of;
and how their texts are kept, within a budget: equal ones once, packed while the log is read.

Option names and formats: PYTORCH_NVFUSER_DUMP of torch 1.11 to 2.1 (torch/csrc/jit/codegen/cuda, from 2.0 on
third_party/nvfuser/csrc), NVFUSER_DUMP of the stand-alone nvFuser. A line that a dump cannot have ends it:
the program may print right behind it. Order inside one compile (executor.cpp, compileFusion): schedule,
lower, kernel_ir, bank_conflict, source, NVRTC; only the source, the file names and ptxas name the kernel.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from re import Pattern
from typing import NamedTuple

GROUP = "group"
"""Printed when a runtime is made for a group, before its kernels are compiled."""
SCHEDULE = "schedule"
"""Parameters of a scheduler: of a group too, and again whenever heuristics are computed."""
COMPILE = "compile"
"""Printed while one kernel is made, before its name is."""
NAMED = "named"
"""Names its kernel itself."""
BUILT = "built"
"""Printed of the kernel that was named last."""
LOOSE = "loose"
"""Of no kernel."""


class Section:
    """What the next line of a dump may be. Group ``end`` is its last line; a group named after another
    section leads into that one."""

    __slots__ = ("_compiled", "_pattern")

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._compiled: Pattern[bytes] | None = None

    @property
    def step(self) -> Pattern[bytes]:
        if self._compiled is None:
            # Few logs have more than one or two kinds of dumps.
            self._compiled = re.compile(self._pattern)
        return self._compiled


class Kind(NamedTuple):
    option: str
    stage: str
    first: bytes
    """What the first line can begin with: most lines of a log begin no dump."""
    start: bytes
    """Pattern of the first line."""
    sections: dict[str, Section]
    """``main`` is the first."""
    single: bool = False
    """The first line is all."""
    confirm: bytes | None = None
    """What the second line must be: the first one alone could be of the program."""
    again: bool = True
    """Dumps of this kind one after another are one text: nothing says where one ends."""


def _sections(**patterns: bytes) -> dict[str, Section]:
    return {name: Section(pattern) for name, pattern in patterns.items()}


_EXPR = rb"[ \t]+\S|T\d+_[a-z]|[a-z]{1,2}\d+ = "
_MATH = rb"Outputs:$|$|%kernel_math \{$"
_NUMBER = rb"-?(?:\d|inf$|nan$)[\w.+-]*$|true$|false$|\((?=.*,).*\)$"

_BUFFER = rb"  \w+ [\[(]|tensor dtype: |  Tensor"
_INPUTS = rb"(?P<outputs>Outputs:$)|tensor dtype: |input type: |  ?\S|" + _NUMBER
_KERNEL_ARGUMENTS = _sections(
    main=rb"(?P<inputs>Inputs:$)",
    inputs=_INPUTS,
    outputs=rb"(?P<buffers>Reduction and semaphore buffers:$|Intermediate global buffers:$)|" + _BUFFER,
    buffers=_BUFFER,
)
_FUSION_ARGUMENTS = _sections(
    main=rb"(?P<inputs>Inputs:$)",
    inputs=_INPUTS,
    # The constraints of the scheduler, printed like a launch. An empty line stands for a joined row.
    outputs=rb"(?P<limits>Launch Parameters: )|$|" + _BUFFER,
    limits=rb"(?P<end>maxrregcount= ?\d+$)",
)

_PARAMETERS = (
    rb"$|=+ \w+ (?:Stats|Parameters) =+$|block\(|grid\(|Tag:|Red On |Persistent Kernel"
    rb"|(?:num|n|elem|max|total|vectorize|broadcast|fusion|inner|outer|has|reduction|iter)[\w ]*: ?[-\d(\[]"
    rb"|Project Persistent|Batches per block|Iteration Domain|Inner Reduction Domain|Outer Reduction Domain"
    rb"|Inner Reduction|Outer Reduction|Launch Parameters: |Vectorize|Unroll|Multiple Reds|Welford|Register"
    rb"|\w[\w -]* Schedule|  ?\S|Bcast|LHS elems|Combined"
)

_SCHEDULER = _sections(main=rb"(?P<end>={36}$)|" + _PARAMETERS)

_SEGMENTER = _sections(
    main=rb"$|Scheduler _\S+_ \*\*\*rejected\*\*\* because : |\*\*\*Accepted\*\*\* as: |\*\*\*Runtime\*\*\*: "
    rb"|\*\*\* Rejected|\*\*\* Accepted|(?P<fusion>\*\*Segmenter\*\* Considering fusion:)",
    fusion=rb"(?P<main>Scheduler _|\*\*\*)|(?P<fusion>\*\*Segmenter\*\*)|$|,|" + _EXPR,
)

KINDS: tuple[Kind, ...] = (
    Kind(
        "kernel_ir",
        COMPILE,
        b"K",
        rb"KERNEL \((?=.*\) -> \().*\) ?:",
        _sections(main=rb"(?P<end>END\.$)|$|,|" + _EXPR),
        again=False,
    ),
    Kind(
        "fusion_ir",
        COMPILE,
        b"%",
        rb"%kernel \{$",
        _sections(main=rb"(?P<end>\} *$)|TransformPrinter ?:|$|,|" + _EXPR),
        again=False,
    ),
    Kind(
        "fusion_ir_math",
        COMPILE,
        b"I%",
        rb"Inputs:$|%kernel_math \{$",
        _sections(main=rb"(?P<end>\} *$)|,|" + _MATH + rb"|" + _EXPR),
        confirm=rb"  T\d+_\w|  [idbfc]\d+(?:, \w+)?$|%kernel_math|Outputs:$",
        again=False,
    ),
    Kind(
        "ca_map",
        COMPILE,
        b"C",
        rb"Compute at map \{ ?$",
        _sections(
            main=rb"(?P<end>\} compute at map)|[ \t]+\S|\w+ ?\w* maps?:|disjoint sets ?\{|\}$|\w+Map ?:|$"
        ),
        again=False,
    ),
    Kind(
        "parallel_dimensions",
        COMPILE,
        b"P",
        rb"Parallel dimension map:$",
        _sections(main=rb"(?:block|thread)Idx\.[xyz]: "),
        again=False,
    ),
    Kind("halo", COMPILE, b"H", rb"HaloInfo:$", _sections(main=rb"TV?\d+\S* root domain: "), again=False),
    Kind("sync_map", COMPILE, b"S", rb"SyncMap:", _sections(main=rb"[ \t]*T\d+_[a-z]\S*"), again=False),
    Kind("bank_conflict", COMPILE, b"=", rb"===== No bank confliction =====$", {}, single=True, again=False),
    Kind(
        "bank_conflict",
        COMPILE,
        b"=",
        rb"=+ Bank confliction =+$",
        _sections(main=rb"(?P<end>={32}$)|Expr: |input conflict|output conflict|$|" + _EXPR),
        again=False,
    ),
    Kind(
        "buffer_reuse_verbose",
        COMPILE,
        b"0",
        rb"0  (?:FOR |IF |ELSE|T\d+_\w|[a-z]{1,2}\d+ = |NVFUSER_|BLOCK|ALLOC)",
        _sections(
            # Every entry has its number; an expression of several lines has none on the others.
            main=rb"[1-9]\d* {2,}\S|,| +\^{5}| {1,4}(?:[-+*/<>=!&|%?:]+ |T\d+_|\.\w+=|\w+ = )"
            rb"|T\d+_[a-z]|[a-z]{1,2}\d+ = "
        ),
        again=False,
    ),
    Kind(
        "transform_propagator",
        COMPILE,
        b"MT",
        rb"(?:MostInlined)?TransformPropagator::propagate",
        _sections(main=rb"(?:MostInlined)?TransformPropagator::propagate|  (?:from|to|re\w+|result)\b"),
    ),
    Kind(
        "inline_propagator",
        COMPILE,
        b"I",
        rb"InlinePropagator::",
        _sections(main=rb"InlinePropagator::|  (?:from|to|re\w+|result|mapped|max)\b"),
    ),
    Kind(
        "lower_verbose",
        COMPILE,
        b"A",
        rb"After \w+:$",
        _sections(main=rb"After \w+:$|FOR |IF |ELSE|BLOCK|NVFUSER_|ALLOC|$|" + _EXPR),
        confirm=rb"T\d+_[lgsxt]|FOR [\w.]+ in |IF \w|[a-z]{1,2}\d+ = ",
    ),
    Kind("kernel_args", NAMED, b"A", rb"Arguments for kernel ?\d+:", _KERNEL_ARGUMENTS, again=False),
    Kind(
        "kernel_args", NAMED, b"A", rb"Arguments for fusion \d+ group \d+:$", _KERNEL_ARGUMENTS, again=False
    ),
    Kind("fusion_args", NAMED, b"A", rb"Arguments for fusion\d+:", _FUSION_ARGUMENTS, again=False),
    Kind(
        "perf_debug_verbose",
        NAMED,
        b"R",
        rb"Run kernel:$",
        _sections(
            main=rb"(?P<math>Inputs:$|%kernel_math \{$)|(?P<inputs>With inputs:$)|$",
            math=rb"(?P<main>\} *$)|,|" + _MATH + rb"|" + _EXPR,
            inputs=rb"(?P<log>Compiler log:)|tensor dtype: |input type: |  ?\S|" + _NUMBER,
            log=rb"(?P<ran>With arguments: )|ptxas |Compile options: |Max register|\x00|={36}$|"
            + _PARAMETERS,
            ran=rb"(?P<end>\S+ \d+ bytes/ \S+ ms \S+ GB/s)|$",  # as of a joined row
        ),
        again=False,
    ),
    Kind(
        "perf_debug_verbose", LOOSE, b"=", rb"=+ ?(?:FINISHED )?RUNNING FUSION SEGMENTS ?=+$", {}, single=True
    ),
    Kind(
        "ptxas_verbose",
        NAMED,
        b"p",
        rb"ptxas (?:info|\.|warning|error| )",
        _sections(main=rb"ptxas |\x00+$| +\d+ bytes stack frame, "),
    ),
    Kind("cuda_to_file", NAMED, b"P", rb"PRINTING: __tmp_\w+\.\w+$", {}, single=True, again=False),
    Kind(
        "segmenter_logging",
        GROUP,
        b"*S",
        rb"\*\*\*Runtime\*\*\*: |\*\*Segmenter\*\* Considering fusion:"
        rb"|Scheduler _\S+_ \*\*\*rejected\*\*\* because : |\*\*\*Accepted\*\*\* as: ",
        _SEGMENTER,
    ),
    Kind(
        "segmented_fusion",
        GROUP,
        b"S",
        rb"Segment the fusion \(",
        _sections(main=rb"(?P<end>\} *$)|,|" + _MATH + rb"|Inputs:$|" + _EXPR),
        again=False,
    ),
    Kind(
        "segmented_fusion",
        GROUP,
        b"S",
        rb"Segmented_Fusion(?: Dump: -- |\{)",
        _sections(
            main=rb"(?P<end>\} //Segmented_Fusion)|g\{|e\{|r\{| -> |\(T\d+|groups: |edges: |group details:"
            rb"|[Ii]nputs: ?$|[Oo]utputs: ?$|Segmented_Fusion|\} // |\} *$|%kernel_math|$|,"
            rb"|[a-z]{1,2}\d+ \w+$|" + _EXPR
        ),
        again=False,
    ),
    Kind(
        "draw_segmented_fusion",
        GROUP,
        b"s",
        rb"segmentation phases \{$",
        _sections(main=rb"(?P<end>\}$)|combine reductions$|herrmann merging$|final merging$|$"),
        again=False,
    ),
    Kind(
        "scheduler_params",
        SCHEDULE,
        b"=",
        rb"=+ (?:Pointwise|Reduction|Transpose|Persistent|Matmul|No-op|Resize|InnerPersistent"
        rb"|OuterPersistent|InnerOuterPersistent|UNSUPPORTED REDUCTION) (?:Stats|Parameters|HEURISTIC) =+$",
        _SCHEDULER,
        again=False,
    ),
    Kind(
        "python_definition",
        LOOSE,
        b"d",
        rb"def nvfuser_fusion_id\d+\(fd ?: ?FusionDefinition\)",
        _sections(main=rb" {4}\S"),
    ),
    Kind(
        "python_frontend_debug",
        LOOSE,
        b"F",
        rb"FusionDefinition: (?:Terminal Node|Trie)|Fusion(?:Cache|Interface|Manager): ",
        {},
        single=True,
    ),
    Kind(
        "fusion_ir_preseg",
        LOOSE,
        b"FCO",
        rb"Fusion IR after pre-segmenter optimization passes:|Fusion before concretization:"
        rb"|Concretized Fusion:|Original fusion IR after ",
        {},
        single=True,
    ),
    Kind(
        "profile",
        NAMED,
        b"F -0123456789",
        rb"Fus# +NSegs +CuEvtTm| *(?:\d+|-) +(?:\d+|-) +[-\d.]+ .*\] +(?:nvfuser_\w{1,200}|kernel\d{1,9}) *$",
        _sections(
            main=rb" *(?:\d+|-) +(?:\d+|-) +[-\d.]+ .*(?:nvfuser_\w{1,200}|kernel\d{1,9}) *$"
            rb"| *\d+ +\d+(?: +[\d.]+){3,8} *$"
        ),
        again=False,
    ),
    Kind("index_type", BUILT, b"I", rb"Index type: \w+$", {}, single=True),
    Kind(
        "occupancy",
        BUILT,
        b"n",
        rb"num_sms=\d+, blocks_per_sm=\d+, warps_per_sm=\d+, occupancy=[\d.]+%$",
        {},
        single=True,
    ),
    Kind(
        "compile_params",
        BUILT,
        b"NCMp",
        rb"NVRTC Compile Parameters \(\d+ options\):$|Compile options: -|Max register count: \d"
        rb"|ptxas optimization level manually set",
        _sections(main=rb" +-"),
        again=False,
    ),
)
"""Every kind, the more particular ones first."""


BUDGET = 12 << 20
"""Bytes of text that are kept of a run, source and dumps of kernels together: JSON holds them as they
are. A kernel has about 10 KB, with the runtime of nvFuser in front (``cuda_full``) 240 KB. Further ones are
counted."""


class TextStore:
    """The texts of a run."""

    def __init__(self) -> None:
        self._room = BUDGET
        self._known: dict[bytes, str] = {}
        self._refused: set[int] = set()
        """Hashes of those that there was no room for."""

    def keep(self, text: bytes, digest: bytes | None = None) -> str | None:
        """The text as it is kept; None if there is no room for it. With the digest of one that was kept, or
        refused, before, the text is not looked at."""
        if digest is None:
            digest = digest_of(text)
        known = self._known.get(digest)
        if known is not None or hash(digest) in self._refused:
            return known
        if len(text) > self._room:
            self._refused.add(hash(digest))
            return None
        self._room -= len(text)
        known = self._known[digest] = text.decode("utf-8", "replace")
        return known

    @property
    def left_out(self) -> int:
        """How many there was no room for."""
        return len(self._refused)


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
