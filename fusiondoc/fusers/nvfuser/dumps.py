"""The dumps of nvFuser that carry text.

Option names and formats: PYTORCH_NVFUSER_DUMP of torch 1.11 to 2.1
(torch/csrc/jit/codegen/cuda, from 2.0 on third_party/nvfuser/csrc), NVFUSER_DUMP of
the stand-alone nvFuser. Order inside one compile (executor.cpp, compileFusion):
schedule, lower, kernel_ir, bank_conflict, source, NVRTC; only the source, the file
names and ptxas name the kernel.
"""

from __future__ import annotations

from fusiondoc.fusers.dump_kind import (
    BUILT,
    COMPILE,
    GROUP,
    LOOSE,
    NAMED,
    SCHEDULE,
    DumpKind,
    sections,
)

_EXPR = rb"[ \t]+\S|T\d+_[a-z]|[a-z]{1,2}\d+ = "
_MATH = rb"Outputs:$|$|%kernel_math \{$"
_NUMBER = rb"-?(?:\d|inf$|nan$)[\w.+-]*$|true$|false$|\((?=.*,).*\)$"

_BUFFER = rb"  \w+ [\[(]|tensor dtype: |  Tensor"
_INPUTS = rb"(?P<outputs>Outputs:$)|tensor dtype: |input type: |  ?\S|" + _NUMBER
_KERNEL_ARGUMENTS = sections(
    main=rb"(?P<inputs>Inputs:$)",
    inputs=_INPUTS,
    outputs=rb"(?P<buffers>Reduction and semaphore buffers:$|Intermediate global buffers:$)|"
    + _BUFFER,
    buffers=_BUFFER,
)
_FUSION_ARGUMENTS = sections(
    main=rb"(?P<inputs>Inputs:$)",
    inputs=_INPUTS,
    # The constraints of the scheduler, printed like a launch. An empty line
    # replaces a joined row.
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

_SCHEDULER = sections(main=rb"(?P<end>={36}$)|" + _PARAMETERS)

_SEGMENTER = sections(
    main=rb"$|Scheduler _\S+_ \*\*\*rejected\*\*\* because : |\*\*\*Accepted\*\*\* as: |\*\*\*Runtime\*\*\*: "
    rb"|\*\*\* Rejected|\*\*\* Accepted|(?P<fusion>\*\*Segmenter\*\* Considering fusion:)",
    fusion=rb"(?P<main>Scheduler _|\*\*\*)|(?P<fusion>\*\*Segmenter\*\*)|$|,|"
    + _EXPR,
)

KINDS: tuple[DumpKind, ...] = (
    DumpKind(
        "kernel_ir",
        COMPILE,
        b"K",
        rb"KERNEL \((?=.*\) -> \().*\) ?:",
        sections(main=rb"(?P<end>END\.$)|$|,|" + _EXPR),
        again=False,
    ),
    DumpKind(
        "fusion_ir",
        COMPILE,
        b"%",
        rb"%kernel \{$",
        sections(main=rb"(?P<end>\} *$)|TransformPrinter ?:|$|,|" + _EXPR),
        again=False,
    ),
    DumpKind(
        "fusion_ir_math",
        COMPILE,
        b"I%",
        rb"Inputs:$|%kernel_math \{$",
        sections(main=rb"(?P<end>\} *$)|,|" + _MATH + rb"|" + _EXPR),
        confirm=rb"  T\d+_\w|  [idbfc]\d+(?:, \w+)?$|%kernel_math|Outputs:$",
        again=False,
    ),
    DumpKind(
        "ca_map",
        COMPILE,
        b"C",
        rb"Compute at map \{ ?$",
        sections(
            main=rb"(?P<end>\} compute at map)|[ \t]+\S|\w+ ?\w* maps?:|disjoint sets ?\{|\}$|\w+Map ?:|$"
        ),
        again=False,
    ),
    DumpKind(
        "parallel_dimensions",
        COMPILE,
        b"P",
        rb"Parallel dimension map:$",
        sections(main=rb"(?:block|thread)Idx\.[xyz]: "),
        again=False,
    ),
    DumpKind(
        "halo",
        COMPILE,
        b"H",
        rb"HaloInfo:$",
        sections(main=rb"TV?\d+\S* root domain: "),
        again=False,
    ),
    DumpKind(
        "sync_map",
        COMPILE,
        b"S",
        rb"SyncMap:",
        sections(main=rb"[ \t]*T\d+_[a-z]\S*"),
        again=False,
    ),
    DumpKind(
        "bank_conflict",
        COMPILE,
        b"=",
        rb"===== No bank confliction =====$",
        {},
        single=True,
        again=False,
    ),
    DumpKind(
        "bank_conflict",
        COMPILE,
        b"=",
        rb"=+ Bank confliction =+$",
        sections(
            main=rb"(?P<end>={32}$)|Expr: |input conflict|output conflict|$|"
            + _EXPR
        ),
        again=False,
    ),
    DumpKind(
        "buffer_reuse_verbose",
        COMPILE,
        b"0",
        rb"0  (?:FOR |IF |ELSE|T\d+_\w|[a-z]{1,2}\d+ = |NVFUSER_|BLOCK|ALLOC)",
        sections(
            # Every entry has a number; an expression of several lines has it on the
            # first one only.
            main=rb"[1-9]\d* {2,}\S|,| +\^{5}| {1,4}(?:[-+*/<>=!&|%?:]+ |T\d+_|\.\w+=|\w+ = )"
            rb"|T\d+_[a-z]|[a-z]{1,2}\d+ = "
        ),
        again=False,
    ),
    DumpKind(
        "transform_propagator",
        COMPILE,
        b"MT",
        rb"(?:MostInlined)?TransformPropagator::propagate",
        sections(
            main=rb"(?:MostInlined)?TransformPropagator::propagate|  (?:from|to|re\w+|result)\b"
        ),
    ),
    DumpKind(
        "inline_propagator",
        COMPILE,
        b"I",
        rb"InlinePropagator::",
        sections(
            main=rb"InlinePropagator::|  (?:from|to|re\w+|result|mapped|max)\b"
        ),
    ),
    DumpKind(
        "lower_verbose",
        COMPILE,
        b"A",
        rb"After \w+:$",
        sections(
            main=rb"After \w+:$|FOR |IF |ELSE|BLOCK|NVFUSER_|ALLOC|$|" + _EXPR
        ),
        confirm=rb"T\d+_[lgsxt]|FOR [\w.]+ in |IF \w|[a-z]{1,2}\d+ = ",
    ),
    DumpKind(
        "kernel_args",
        NAMED,
        b"A",
        rb"Arguments for kernel ?\d+:",
        _KERNEL_ARGUMENTS,
        again=False,
    ),
    DumpKind(
        "kernel_args",
        NAMED,
        b"A",
        rb"Arguments for fusion \d+ group \d+:$",
        _KERNEL_ARGUMENTS,
        again=False,
    ),
    DumpKind(
        "fusion_args",
        NAMED,
        b"A",
        rb"Arguments for fusion\d+:",
        _FUSION_ARGUMENTS,
        again=False,
    ),
    DumpKind(
        "perf_debug_verbose",
        NAMED,
        b"R",
        rb"Run kernel:$",
        sections(
            main=rb"(?P<math>Inputs:$|%kernel_math \{$)|(?P<inputs>With inputs:$)|$",
            math=rb"(?P<main>\} *$)|,|" + _MATH + rb"|" + _EXPR,
            inputs=rb"(?P<log>Compiler log:)|tensor dtype: |input type: |  ?\S|"
            + _NUMBER,
            log=rb"(?P<ran>With arguments: )|ptxas |Compile options: |Max register|\x00|={36}$|"
            + _PARAMETERS,
            ran=rb"(?P<end>\S+ \d+ bytes/ \S+ ms \S+ GB/s)|$",  # as of a joined row
        ),
        again=False,
    ),
    DumpKind(
        "perf_debug_verbose",
        LOOSE,
        b"=",
        rb"=+ ?(?:FINISHED )?RUNNING FUSION SEGMENTS ?=+$",
        {},
        single=True,
    ),
    DumpKind(
        "ptxas_verbose",
        NAMED,
        b"p",
        rb"ptxas (?:info|\.|warning|error| )",
        sections(main=rb"ptxas |\x00+$| +\d+ bytes stack frame, "),
    ),
    DumpKind(
        "cuda_to_file",
        NAMED,
        b"P",
        rb"PRINTING: __tmp_\w+\.\w+$",
        {},
        single=True,
        again=False,
    ),
    DumpKind(
        "segmenter_logging",
        GROUP,
        b"*S",
        rb"\*\*\*Runtime\*\*\*: |\*\*Segmenter\*\* Considering fusion:"
        rb"|Scheduler _\S+_ \*\*\*rejected\*\*\* because : |\*\*\*Accepted\*\*\* as: ",
        _SEGMENTER,
    ),
    DumpKind(
        "segmented_fusion",
        GROUP,
        b"S",
        rb"Segment the fusion \(",
        sections(main=rb"(?P<end>\} *$)|,|" + _MATH + rb"|Inputs:$|" + _EXPR),
        again=False,
    ),
    DumpKind(
        "segmented_fusion",
        GROUP,
        b"S",
        rb"Segmented_Fusion(?: Dump: -- |\{)",
        sections(
            main=rb"(?P<end>\} //Segmented_Fusion)|g\{|e\{|r\{| -> |\(T\d+|groups: |edges: |group details:"
            rb"|[Ii]nputs: ?$|[Oo]utputs: ?$|Segmented_Fusion|\} // |\} *$|%kernel_math|$|,"
            rb"|[a-z]{1,2}\d+ \w+$|" + _EXPR
        ),
        again=False,
    ),
    DumpKind(
        "draw_segmented_fusion",
        GROUP,
        b"s",
        rb"segmentation phases \{$",
        sections(
            main=rb"(?P<end>\}$)|combine reductions$|herrmann merging$|final merging$|$"
        ),
        again=False,
    ),
    DumpKind(
        "scheduler_params",
        SCHEDULE,
        b"=",
        rb"=+ (?:Pointwise|Reduction|Transpose|Persistent|Matmul|No-op|Resize|InnerPersistent"
        rb"|OuterPersistent|InnerOuterPersistent|UNSUPPORTED REDUCTION) (?:Stats|Parameters|HEURISTIC) =+$",
        _SCHEDULER,
        again=False,
    ),
    DumpKind(
        "python_definition",
        LOOSE,
        b"d",
        rb"def nvfuser_fusion_id\d+\(fd ?: ?FusionDefinition\)",
        sections(main=rb" {4}\S"),
    ),
    DumpKind(
        "python_frontend_debug",
        LOOSE,
        b"F",
        rb"FusionDefinition: (?:Terminal Node|Trie)|Fusion(?:Cache|Interface|Manager): ",
        {},
        single=True,
    ),
    DumpKind(
        "fusion_ir_preseg",
        LOOSE,
        b"FCO",
        rb"Fusion IR after pre-segmenter optimization passes:|Fusion before concretization:"
        rb"|Concretized Fusion:|Original fusion IR after ",
        {},
        single=True,
    ),
    DumpKind(
        "profile",
        NAMED,
        b"F -0123456789",
        rb"Fus# +NSegs +CuEvtTm| *(?:\d+|-) +(?:\d+|-) +[-\d.]+ .*\] +(?:nvfuser_\w{1,200}|kernel\d{1,9}) *$",
        sections(
            main=rb" *(?:\d+|-) +(?:\d+|-) +[-\d.]+ .*(?:nvfuser_\w{1,200}|kernel\d{1,9}) *$"
            rb"| *\d+ +\d+(?: +[\d.]+){3,8} *$"
        ),
        again=False,
    ),
    DumpKind("index_type", BUILT, b"I", rb"Index type: \w+$", {}, single=True),
    DumpKind(
        "occupancy",
        BUILT,
        b"n",
        rb"num_sms=\d+, blocks_per_sm=\d+, warps_per_sm=\d+, occupancy=[\d.]+%$",
        {},
        single=True,
    ),
    DumpKind(
        "compile_params",
        BUILT,
        b"NCMp",
        rb"NVRTC Compile Parameters \(\d+ options\):$|Compile options: -|Max register count: \d"
        rb"|ptxas optimization level manually set",
        sections(main=rb" +-"),
        again=False,
    ),
)
"""Every kind; more specific ones come first."""
