"""The finding codes, each with all its properties. Its page is in
``diagnosis/pages/``.

They are stable: a code is never given to another meaning.
"""

from __future__ import annotations

from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.code_kinds import Cause, Loss
from fusiondoc.model.finding_code import (
    DYNAMIC_SIZES,
    MORE_RUNS,
    OTHER_FUSER,
    REDUCTIONS,
    TRACE,
    Code,
)
from fusiondoc.model.inductor_codes import (
    DYNAMIC as DYNAMIC,
)
from fusiondoc.model.inductor_codes import (
    LOSE_NOTHING,
    OF_BOUNDARIES,
    OF_CALLS,
    OF_FAILURES,
    OF_LOGS,
    OF_RUNS,
    TRIES,
)
from fusiondoc.model.nnc_codes import OF_NNC
from fusiondoc.model.nvfuser_codes import OF_NVFUSER
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.te import NOTHING_LOST, OF_TE

_SINGLE = "single_node=on"
_NOT_HORIZONTAL = "horizontal=off"
_KEEP_SMALL, _KEEP_REGIONS = "fusion_group_inlining=off", "autodiff_inlining=off"

_ALL = (
    Code(
        "FD001",
        "warning",
        "nvFuser is not in this torch, or a knob does nothing here",
    ),
    Code("FD002", "warning", "The requested fuser is not the one that was used"),
    Code("FD003", "error", "An unknown dump option makes every group fall back"),
    Code("FD004", "note", "Your log variables were merged with the required ones"),
    Code(
        "FD101",
        "warning",
        "Too few runs: only profiling happened",
        tries=(MORE_RUNS,),
        change=ChangeKind.RUNS,
    ),
    Code("FD102", "warning", "No fusion pass in the log", change=ChangeKind.LOG),
    Code(
        "FD103",
        "warning",
        "A gradient graph was still profiling at the end",
        tries=(MORE_RUNS,),
        cause=Cause.SETTING,
        change=ChangeKind.RUNS,
    ),
    Code(
        "FD104",
        "warning",
        "The fuser is off",
        remedy=Remedy(
            "Choose a fuser: --fuser nnc or nvfuser;",
            "in a program: with torch.jit.fuser('fuser1').",
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.SETTING,
        change=ChangeKind.FUSER,
    ),
    Code("FD105", "warning", "AOTAutograd wraps the function anew in every call"),
    Code(
        "FD106", "warning", "Graphs of AOTAutograd fit the shapes of one call only"
    ),
    Code("FD107", "error", "AOTAutograd could not compile the function"),
    Code("FD108", "warning", "torch.compile cut the program into several graphs"),
    Code("FD109", "warning", "A module that fuses itself ran its plain operators"),
    *(Code(*row) for row in OF_TE if row[0] < "FD2"),
    *(Code(*row) for row in OF_RUNS),
    *OF_NVFUSER,
    *OF_NNC,
    Code(
        "FD220",
        "note",
        "The group was too small and was undone",
        remedy=Remedy(
            "Put other element-wise operators next to it;",
            "--knob fusion_group_inlining=off allows groups of one, which gain nothing.",
        ),
        tries=(_KEEP_SMALL,),
    ),
    Code(
        "FD221",
        "warning",
        "Tensors on several devices",
        remedy=Remedy(
            "Put all tensors of the block on one device: x.to(y.device)."
        ),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD222",
        "note",
        "The tensors are on a device this fuser does not fuse on",
        remedy=Remedy("Move its tensors to the GPU: .to('cuda')."),
        tries=(OTHER_FUSER,),
        cause=Cause.SETTING,
    ),
    Code(
        "FD223",
        "warning",
        "The fuser does not support the dtype",
        remedy=Remedy(
            "Compute in float32, float16 or bfloat16 if the result allows it, and cast outside the block."
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD224",
        "warning",
        "More than eight dimensions",
        remedy=Remedy(
            "Reshape to at most 8 dimensions before the block and back after it."
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD225",
        "note",
        "Nothing next to it to fuse with",
        remedy=nothing(
            "Nothing, if no other operator can be next to it;",
            "under nvFuser --knob single_node=on makes it a group of its own.",
        ),
        tries=(_SINGLE, _KEEP_SMALL),
    ),
    Code(
        "FD226",
        "note",
        "Nothing to gain",
        remedy=nothing(
            "Nothing: it moves no data.", "It matters only between two groups."
        ),
        loss=Loss.NONE,
    ),
    Code(
        "FD227",
        "warning",
        "Another operator separates it from what it would fuse with",
        remedy=Remedy(
            "Replace the operator between them with ones that fuse;",
            "move one that computes nothing, such as a view or a gather, before or after the element-wise"
            " operators.",
        ),
        tries=(_NOT_HORIZONTAL, REDUCTIONS),
    ),
    Code(
        "FD228",
        "note",
        "Alone in a branch or loop",
        remedy=Remedy(
            "Take it out of the branch or loop, or move its neighbours in."
        ),
        tries=(TRACE,),
    ),
    Code(
        "FD229",
        "warning",
        "Control flow cuts the graph",
        remedy=Remedy(
            "Decide outside the scripted function: a constant flag, two functions, torch.where"
            " instead of a branch, an argument that is never None."
        ),
        tries=(TRACE,),
        loss=Loss.AROUND,
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD230",
        "warning",
        "Changes a tensor in place, or its output shares memory",
        remedy=Remedy(
            "Write the version without the underscore: x = x.add(y) instead of x.add_(y)."
        ),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD231",
        "warning",
        "Needs a gradient, but is outside every differentiable graph",
        remedy=Remedy(
            "Run inference under torch.no_grad();",
            "for training, keep small regions (--knob autodiff_inlining=off), and move operators without a"
            " gradient formula out of the block.",
        ),
        tries=(_KEEP_REGIONS,),
    ),
    Code(
        "FD232",
        "warning",
        "A value without a profiled type",
        remedy=Remedy(
            "Run the code in the first passes too (all branches), so that its tensors are profiled."
        ),
        tries=(MORE_RUNS, TRACE),
        cause=Cause.SETTING,
    ),
    Code(
        "FD233",
        "note",
        "The fuser does not support the operator",
        remedy=Remedy(
            "Replace it with operators that this fuser takes (fusiondoc explain FD233), or move it"
            " out of the block."
        ),
        tries=(REDUCTIONS, OTHER_FUSER),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD234",
        "warning",
        "Too many inputs and outputs for one group",
        remedy=Remedy(
            "Split the block: a kernel takes at most 128 inputs and outputs."
        ),
        tries=(_NOT_HORIZONTAL,),
    ),
    Code(
        "FD235",
        "note",
        "Bookkeeping of the gradient",
        remedy=nothing(
            "Nothing: it belongs to the gradient executor.",
            "Fewer inputs that require gradients mean fewer of them.",
        ),
        loss=Loss.NONE,
        cause=Cause.SETTING,
    ),
    Code(
        "FD236",
        "note",
        "Nothing to change: kernels of a library, torch's own code",
        remedy=nothing(
            "Nothing: fusion is for the operators before and after them."
        ),
        loss=Loss.NONE,
    ),
    Code(
        "FD237",
        "warning",
        "AOTAutograd: an argument is changed in place, or shares memory",
        remedy=Remedy(
            "Return a new tensor instead of changing an argument, and pass copies of arguments that"
            " share memory."
        ),
        loss=Loss.RESULT,
    ),
    *(
        Code(*row, loss=Loss.NONE if row[0] in NOTHING_LOST else Loss.RESULT)
        for row in OF_TE
        if row[0] > "FD2"
    ),
    *(
        Code(
            *row,
            loss=Loss.NONE if row[0] in LOSE_NOTHING else Loss.RESULT,
            cause=Cause.OPERATOR,
        )
        for row in OF_CALLS
    ),
    *(
        Code(
            *row,
            tries=TRIES.get(row[0], ()),
            loss=Loss.NONE if row[0] in LOSE_NOTHING else Loss.RESULT,
        )
        for row in OF_BOUNDARIES
    ),
    Code(
        "FD299",
        "note",
        "No reason found",
        remedy=Remedy(
            "Get more of the log: fusiondoc diagnose records every reason that torch states."
        ),
    ),
    Code(
        "FD301",
        "error",
        "A group fell back while compiling",
        tries=(_NOT_HORIZONTAL, OTHER_FUSER),
    ),
    Code(
        "FD302",
        "error",
        "A group fell back while running",
        tries=(_NOT_HORIZONTAL, OTHER_FUSER),
    ),
    Code(
        "FD303",
        "error",
        "The process died while compiling or running a group",
        tries=(OTHER_FUSER,),
    ),
    Code(
        "FD304",
        "note",
        "An unfused copy ran because a guard failed",
        tries=(DYNAMIC_SIZES,),
        cause=Cause.SETTING,
    ),
    Code(
        "FD305",
        "warning",
        "Many specialisations of one function",
        tries=(DYNAMIC_SIZES,),
        change=ChangeKind.STATIC_SHAPES,
    ),
    Code("FD306", "error", "The CUDA of this torch does not fit this GPU"),
    Code(
        "FD307",
        "error",
        "A fuser failed, and its error ended the program",
        tries=(OTHER_FUSER,),
    ),
    Code(
        "FD308",
        "error",
        "A differentiable graph gave a gradient of the wrong shape",
        tries=(OTHER_FUSER,),
    ),
    Code("FD309", "error", "Only the fused run fails", tries=(OTHER_FUSER,)),
    *(Code(*row) for row in OF_FAILURES),
    Code(
        "FD401",
        "warning",
        "A kernel is far below the memory bandwidth of the GPU",
        tries=(OTHER_FUSER,),
    ),
    Code(
        "FD402",
        "note",
        "Kernels move so little that their launch takes longer",
        whole_run=True,
    ),
    Code("FD403", "note", "A group runs as several kernels"),
    Code("FD404", "warning", "A kernel spills registers to memory"),
    Code("FD405", "note", "Few warps of a kernel fit on a multiprocessor"),
    Code("FD406", "note", "Many small groups in a row"),
    Code(
        "FD407",
        "warning",
        "Compiled again for every shape",
        tries=(DYNAMIC_SIZES,),
        change=ChangeKind.STATIC_SHAPES,
    ),
    Code("FD408", "note", "A copy next to a group that only changes the layout"),
    Code("FD501", "error", "Fused numbers differ from eager", tries=(OTHER_FUSER,)),
    Code(
        "FD502",
        "note",
        "An output has another dtype or other strides than in eager",
    ),
    Code("FD503", "note", "Random results were compared by their statistics"),
    Code(
        "FD504",
        "warning",
        "A partition keeps more for the backward pass than the default one",
    ),
    Code("FD901", "warning", "No fusion lines in the log", change=ChangeKind.LOG),
    Code("FD902", "warning", "The log is cut off"),
    Code("FD903", "note", "Some lines were not recognised"),
    Code(
        "FD904",
        "note",
        "stdout and stderr are out of order: kernels cannot be assigned to groups",
    ),
    Code("FD905", "error", "The program failed"),
    Code("FD906", "note", "Parts of what torch can log are missing"),
    Code(
        "FD907",
        "warning",
        "The program closed or redirected the descriptors that fusers log to",
    ),
    Code("FD908", "note", "Processes that the program had started were ended"),
    Code("FD909", "note", "The log was longer than its limit"),
    Code("FD910", "note", "A log of stand-alone nvFuser or Lightning Thunder"),
    Code("FD911", "warning", "The ranks of the run differ"),
    Code("FD912", "note", "The log shows more than a report holds"),
    *(Code(*row) for row in OF_LOGS),
)

CODES: dict[str, Code] = {code.code: code for code in _ALL}
"""Every code by its name, in order."""
