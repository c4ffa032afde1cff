"""How messages of the JIT log begin: the headers of printed graphs, and the texts of messages of one line."""

from __future__ import annotations

from enum import Enum, auto

from fusiondoc.fusers import pass_files, plan_headers
from fusiondoc.fusers.nnc import log as nnc_log
from fusiondoc.fusers.nvfuser import log as nvfuser_log
from fusiondoc.parsers.jit.nnc_failed_conditions import CONSIDERING, FAILED, INTO, MERGING

POINTER_MADE = b"GraphCache constructor: "
POINTER_RUNS = b"running GraphCache: "
CACHE_MADE = b"GraphCache created for graph"
FELL_BACK = b"`compile_fusion` hits fallback on graph"
TOO_SMALL = b"Fusion group is too small, unmerging: "
SINGLE = (FAILED, CONSIDERING, MERGING, INTO, TOO_SMALL, *nnc_log.REMARKS)
"""How the messages of one line begin that NNC's pass prints."""
PLAN_FILES = (*pass_files(), "profiling_graph_executor_impl")
"""Files of torch that print plans."""


class GraphKind(Enum):
    """Which graph a message prints, by its header."""

    NVFUSER_BEGINS = auto()
    """The graph that nvFuser's pass begins with."""
    NNC_BEGINS = auto()
    NVFUSER_LEAVES = auto()
    """The plan that nvFuser's pass leaves."""
    NNC_LEAVES = auto()
    PASS_LEAVES = auto()
    """The plan that the pass of another fuser leaves."""
    EXECUTED = auto()
    """The plan of an executor."""
    EXECUTED_SIMPLY = auto()
    """The plan of an executor that gave up specialising."""
    GROUPS_MADE = auto()
    """NNC's groups before those that are too small are undone."""
    CACHE = auto()
    """The group that a GraphCache of nvFuser is made for."""
    FALLS_BACK = auto()
    """The group that nvFuser fails to compile."""
    PROFILED = auto()
    """A graph that an executor begins to profile."""
    NNC_COMPILES = auto()
    """The group that NNC compiles a kernel for."""


KIND_OF_HEADER: dict[bytes, GraphKind] = {
    **{header.encode(): GraphKind.PASS_LEAVES for header in plan_headers()},
    nvfuser_log.PASS_START.encode(): GraphKind.NVFUSER_BEGINS,
    nnc_log.PASS_START.encode(): GraphKind.NNC_BEGINS,
    nvfuser_log.PLAN_HEADER.encode(): GraphKind.NVFUSER_LEAVES,
    nnc_log.PLAN_HEADER.encode(): GraphKind.NNC_LEAVES,
    b"Optimized Graph:": GraphKind.EXECUTED,
    b"Optimized SimpleExecutor Graph:": GraphKind.EXECUTED_SIMPLY,
    b"After compileSpec optimizations:": GraphKind.EXECUTED,
    b"After creating fusion groups:": GraphKind.GROUPS_MADE,
    CACHE_MADE: GraphKind.CACHE,
    FELL_BACK: GraphKind.FALLS_BACK,
    b"Profiled Graph:": GraphKind.PROFILED,
    b"TensorExprKernel graph (Before graph optimization):": GraphKind.NNC_COMPILES,
}

BEGINS_A_PASS = (GraphKind.NVFUSER_BEGINS, GraphKind.NNC_BEGINS)
BEGINS_WORK = (GraphKind.CACHE, GraphKind.FALLS_BACK, GraphKind.NNC_COMPILES)
"""Of a fuser on a group, which may be under way when the process dies."""
