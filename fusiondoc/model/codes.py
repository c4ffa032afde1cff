"""The finding codes. They are stable: a code is never given to another meaning.

FD0xx environment and knobs, FD1xx nothing to fuse yet, FD2xx node not fused, FD3xx fallback, guard and crash,
FD4xx kernel speed, FD5xx whole-model speed and numbers, FD9xx the log itself. Each has a page in ``pages/``.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """``severity`` is the usual one: error, warning or note. ``title`` fits on one line of a terminal."""

    code: str
    severity: str
    title: str


_ALL = (
    Code("FD001", "warning", "nvFuser is not in this torch, or a knob does nothing here"),
    Code("FD002", "warning", "The requested fuser is not the one that was used"),
    Code("FD003", "error", "An unknown dump option makes every group fall back"),
    Code("FD004", "note", "Your log variables were merged with the required ones"),
    Code("FD101", "warning", "Too few runs: only profiling happened"),
    Code("FD102", "warning", "No fusion pass in the log"),
    Code("FD103", "warning", "A gradient graph was still profiling at the end"),
    Code("FD104", "warning", "The fuser is off"),
    Code("FD201", "warning", "nvFuser has no rule for the operator"),
    Code("FD202", "warning", "nvFuser does not support the type of an input"),
    Code("FD203", "warning", "nvFuser does not support the type of an output"),
    Code("FD204", "warning", "The operator does not run on a CUDA device"),
    Code("FD205", "note", "The GPU is too old to fuse anything but elementwise operators"),
    Code("FD206", "note", "The GPU is too old to fuse bfloat16"),
    Code("FD207", "warning", "The operator runs on another device than the group"),
    Code("FD211", "warning", "NNC does not support the operator"),
    Code("FD212", "warning", "NNC does not know the shapes"),
    Code("FD213", "warning", "NNC may not fuse on this device"),
    Code("FD214", "note", "NNC found no single device for the operator"),
    Code("FD215", "warning", "NNC does not support the types"),
    Code("FD216", "note", "Order or shared memory prevents moving the operator into the group"),
    Code("FD217", "note", "The operator is switched off by PYTORCH_TENSOREXPR_DONT_FUSE"),
    Code("FD218", "warning", "The group would have too many arguments"),
    Code("FD219", "note", "NNC states another condition that failed"),
    Code("FD220", "note", "The group was too small and was undone"),
    Code("FD221", "warning", "Tensors on several devices"),
    Code("FD222", "note", "The tensors are on a device this fuser does not fuse on"),
    Code("FD223", "warning", "The fuser does not support the dtype"),
    Code("FD224", "warning", "More than eight dimensions"),
    Code("FD225", "note", "Nothing next to it to fuse with"),
    Code("FD226", "note", "Nothing to gain"),
    Code("FD227", "warning", "Another operator separates it from what it would fuse with"),
    Code("FD228", "note", "Alone in a branch or loop"),
    Code("FD229", "warning", "Control flow cuts the graph"),
    Code("FD230", "warning", "Changes a tensor in place, or its output shares memory"),
    Code("FD231", "warning", "Needs a gradient, but is outside every differentiable graph"),
    Code("FD232", "warning", "A value without a profiled type"),
    Code("FD233", "note", "The fuser does not support the operator"),
    Code("FD234", "warning", "Too many inputs and outputs for one group"),
    Code("FD235", "note", "Bookkeeping of the gradient"),
    Code("FD299", "note", "No reason found"),
    Code("FD301", "error", "A group fell back while compiling"),
    Code("FD302", "error", "A group fell back while running"),
    Code("FD303", "error", "The process died while compiling or running a group"),
    Code("FD304", "note", "An unfused copy ran because a guard failed"),
    Code("FD305", "warning", "Many specialisations of one function"),
    Code("FD306", "error", "The CUDA of this torch does not fit this GPU"),
    Code("FD401", "warning", "A kernel is far below the memory bandwidth of the GPU"),
    Code("FD402", "note", "Kernels move so little that their launch takes longer"),
    Code("FD403", "note", "A group runs as several kernels"),
    Code("FD404", "warning", "A kernel spills registers to memory"),
    Code("FD405", "note", "Few warps of a kernel fit on a multiprocessor"),
    Code("FD406", "note", "Many small groups in a row"),
    Code("FD407", "warning", "Compiled again for every shape"),
    Code("FD408", "note", "A copy next to a group that only changes the layout"),
    Code("FD501", "error", "Fused numbers differ from eager"),
    Code("FD502", "note", "An output has another dtype or other strides than in eager"),
    Code("FD503", "note", "Random results were compared by their statistics"),
    Code("FD901", "warning", "No fusion lines in the log"),
    Code("FD902", "warning", "The log is cut off"),
    Code("FD903", "note", "Some lines were not recognised"),
    Code("FD904", "note", "stdout and stderr are out of order: kernels cannot be assigned to groups"),
    Code("FD905", "error", "The program failed"),
    Code("FD906", "note", "Parts of what torch can log are missing"),
)

CODES: dict[str, Code] = {code.code: code for code in _ALL}
"""Every code by its name, in order."""
