"""The fusers: which work here, choosing a fuser, switching it on for the rest of
the process, and reading which is on. All of the probe's code for a single fuser of
TorchScript is in this file.

The switches are those of ``torch.jit.fuser`` (torch/jit/_fuser.py), set for good
instead of inside a context: plans compile at run time, wherever the user's code
calls the model. Whether a fuser works is found with a small function that is run
under it: its plan must hold a fusion group.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, ContextManager

from . import CANNOT_RUN, FUSER, Refused, first_line
from .environment import torch_release
from .inductor_tools import tools_of_inductor
from .log_and_records import KeptStderr, Records

if TYPE_CHECKING:
    from .inductor_watch import InductorWatch

_FUSERS: dict[str, tuple[str | None, tuple[bool, ...]]] = {
    # node of a group, (fuse on CPU, fuse on GPU, tensor expressions, nvFuser,
    # oneDNN Graph)
    "nnc": ("prim::TensorExprGroup", (True, True, True, False, False)),
    "onednn": ("prim::oneDNNFusionGroup", (True, False, True, False, True)),
    "nvfuser": ("prim::CudaFusionGroup", (False, False, False, True, False)),
    "none": (None, (False, False, False, False, False)),
}

TORCHSCRIPT = ("nvfuser", "nnc", "onednn", "none")
"""The fusers of TorchScript, in the order of tables."""

GROUPS = {name: group for name, (group, _) in _FUSERS.items() if group is not None}
"""Fuser -> the node of its groups, in the order in which the fusers are tried."""


_NVFUSER_RANGE = "nvFuser is in TorchScript of torch 1.12 to 2.1 with CUDA"


def why_no_nvfuser(torch: Any) -> str | None:
    """Why nvFuser cannot work here, or None if it can.

    From 2.2 on its switches are no-ops that print a warning each, so they are not
    even called there. Below, the binary is tried: with a device and the switch set,
    the switch must read back as True.
    """
    this = "this is torch %s" % torch.__version__
    if torch_release(torch) >= (2, 2):
        return "%s; %s" % (_NVFUSER_RANGE, this)
    if torch.version.cuda is None:
        return "%s; %s, a build without CUDA" % (_NVFUSER_RANGE, this)
    if not torch.cuda.is_available():
        return (
            "nvFuser needs an NVIDIA GPU, and torch %s sees none here"
            % torch.__version__
        )
    switch = torch._C
    # Without the profiling executor torch wrongly claims to be built without CUDA
    # (codegen/cuda/interface.cpp).
    executor = switch._jit_set_profiling_executor(True)
    try:
        before = switch._jit_nvfuser_enabled()
        switch._jit_set_nvfuser_enabled(True)
        works = switch._jit_nvfuser_enabled() is True
        switch._jit_set_nvfuser_enabled(bool(before))
    except (AttributeError, RuntimeError) as error:
        return "torch %s cannot switch nvFuser on: %s" % (
            torch.__version__,
            first_line(error),
        )
    finally:
        switch._jit_set_profiling_executor(bool(executor))
    if not works:
        return (
            "torch %s does not switch nvFuser on (PYTORCH_JIT_USE_NNC_NOT_NVFUSER or a missing library)"
            % (torch.__version__)
        )
    return None


def why_no_onednn(torch: Any) -> str | None:
    """Why oneDNN Graph cannot work here, or None if it can."""
    enable = getattr(torch._C, "_jit_set_llga_enabled", None)
    if enable is None:
        return (
            "oneDNN Graph is in torch from 1.12 on; this is torch %s"
            % torch.__version__
        )
    before = torch._C._jit_llga_enabled()
    try:
        enable(True)
        works = torch._C._jit_llga_enabled() is True
        enable(bool(before))
    except RuntimeError as error:
        return "torch %s cannot switch oneDNN Graph on: %s" % (
            torch.__version__,
            first_line(error),
        )
    if works:
        return None
    return "torch %s does not switch oneDNN Graph on" % torch.__version__


# -- the fuser of torch.compile --------------------------------------------------------------------------

COMPILER = "inductor"
"""The fuser of torch.compile, which no switch of TorchScript concerns."""

_FIRST_INDUCTOR = (2, 6)


def why_no_inductor(torch: Any) -> str | None:
    """Why the graphs of Inductor cannot be seen here, or None if they can."""
    if torch_release(torch) < _FIRST_INDUCTOR or not hasattr(torch, "compile"):
        return (
            "its scheduler is read from torch 2.6 on; this is torch %s"
            % torch.__version__
        )
    return None


def is_compiler(fuser: str) -> bool:
    """True for the fuser of torch.compile."""
    return fuser == COMPILER


def may_be_compiled(torch: Any, spec: dict[str, Any], fuser: str) -> bool:
    """Whether the run counts as one of torch.compile if the program itself uses
    that. Args: fuser: the fuser that is switched on.
    """
    if fuser == COMPILER:
        return True
    automatic = (
        spec["fuser"] == "auto" and (spec.get("frontend") or "auto") == "auto"
    )
    return automatic and why_no_inductor(torch) is None


def write_compiled(records: Records, spec: dict[str, Any], why: str) -> None:
    """Record that torch.compile and its fuser are active, and why."""
    records.write(
        "frontend", requested=spec.get("frontend"), effective="dynamo", why=why
    )
    if spec["fuser"] == "auto":
        records.write(
            "fuser",
            requested="auto",
            effective=COMPILER,
            live=True,
            why="auto: " + why,
        )


def compiler_watch(torch: Any, records: Records) -> InductorWatch:
    """Return the watch that records the graphs, groups and kernels of the compiler
    once it is started."""
    from .inductor_watch import InductorWatch

    return InductorWatch(torch, records)


def without_kernels(torch: Any) -> ContextManager[None]:
    """Context manager: the compiler generates kernels, but neither compiles nor
    runs them."""
    from .inductor_without_kernels import without_kernels as block

    return block(torch)


def generated_kernels() -> int:
    """Number of kernels that the compiler has generated in this process
    (torch/_inductor/metrics.py)."""
    return int(
        getattr(
            sys.modules.get("torch._inductor.metrics"), "generated_kernel_count", 0
        )
    )


def traced_on_cpu(variant: str) -> bool:
    """Whether a trace shows the variant's code on the CPU. Inductor's C++ code is
    shown only if it was compiled with
    torch._inductor.config.cpp.enable_kernel_profile (torch/_inductor/config.py,
    2.13)."""
    return not is_compiler(variant)


# -- which fusers work here ------------------------------------------------------------------------------

_PROBLEMS = {
    "nvfuser": why_no_nvfuser,
    "onednn": why_no_onednn,
    COMPILER: why_no_inductor,
}
"""Reasons why some releases, builds or machines lack a fuser."""


def why_not(torch: Any, fuser: str) -> str | None:
    """Why a fuser cannot work here, or None if it can."""
    problem = _PROBLEMS.get(fuser)
    if problem is None:
        return None
    return problem(torch)


def choose_fuser(torch: Any, requested: str) -> tuple[str, str | None]:
    """Return the fuser for ``requested``, and why ``auto`` chose it, or a remark on
    it; Refused (status 4) if it cannot work."""
    nvfuser_problem = None
    if requested in ("auto", "nvfuser"):
        nvfuser_problem = why_no_nvfuser(torch)
    if requested == "auto":
        if nvfuser_problem is None:
            return "nvfuser", "auto: this torch has nvFuser, and a GPU for it"
        remark = note_on_fuser(torch, "nnc")
        why = "auto: %s; NNC works here" % nvfuser_problem
        return "nnc", "%s, %s" % (why, remark) if remark else why
    if requested == "nvfuser" and nvfuser_problem is not None:
        raise Refused(
            "fuser",
            "nvFuser cannot work here: " + nvfuser_problem,
            "Use torch 2.1 (or 1.12 to 2.0) with CUDA on a machine with an NVIDIA GPU (--python chooses the "
            "interpreter), or --fuser nnc here.",
            CANNOT_RUN,
        )
    if requested == COMPILER:
        problem = why_no_inductor(torch)
        if problem is not None:
            raise Refused(
                "fuser",
                "Inductor cannot be watched here: " + problem,
                "Use torch 2.6 or newer (--python chooses the interpreter).",
                CANNOT_RUN,
            )
    if requested == "onednn":
        problem = why_no_onednn(torch)
        if problem is not None:
            raise Refused(
                "fuser",
                "oneDNN Graph cannot work here: " + problem,
                "Use --fuser nnc.",
                CANNOT_RUN,
            )
    return requested, note_on_fuser(torch, requested)


def note_on_fuser(torch: Any, fuser: str) -> str | None:
    """A remark on a fuser on this machine, or None."""
    if (
        fuser == "nnc"
        and not torch.cuda.is_available()
        and not torch._C._llvm_enabled()
    ):
        return "through its own evaluator on the CPU, because this build has no LLVM (true groups, slow kernels)"
    return {
        "onednn": "weights of frozen modules only",
        "none": "every fuser off",
    }.get(fuser)


def switch_on(torch: Any, fuser: str) -> None:
    """Set every switch so that ``fuser`` is on."""
    if fuser == COMPILER:
        return
    cpu, gpu, tensor_expressions, nvfuser, onednn = _FUSERS[fuser][1]
    switch = torch._C
    llvm = bool(switch._llvm_enabled())
    if fuser == "onednn" and not llvm:
        cpu = False  # NNC would get the rest, without a CPU backend
    # Set the executor first: without the profiling executor nvFuser cannot be
    # switched on.
    switch._jit_set_profiling_executor(True)
    switch._get_graph_executor_optimize(True)
    switch._jit_override_can_fuse_on_cpu(cpu)
    switch._jit_override_can_fuse_on_gpu(gpu)
    switch._jit_set_texpr_fuser_enabled(tensor_expressions)
    if torch_release(torch) < (2, 2) and (
        nvfuser or torch.version.cuda is not None
    ):
        switch._jit_set_nvfuser_enabled(nvfuser)
    if hasattr(switch, "_jit_set_llga_enabled"):
        switch._jit_set_llga_enabled(onednn)
    switch._jit_override_can_fuse_on_cpu_legacy(False)
    if fuser == "nnc" and not llvm:
        # With the default True nothing fuses on the CPU at compile time, or the
        # second run dies of "LLVM Backend not found".
        switch._jit_set_te_must_use_llvm_cpu(False)


def is_on(torch: Any, fuser: str) -> bool:
    """True if the switches have the values that ``fuser`` needs."""
    if fuser == COMPILER:
        return why_no_inductor(torch) is None
    switch = torch._C
    if fuser == "nvfuser":
        return switch._jit_nvfuser_enabled() is True
    if fuser == "onednn":
        return switch._jit_llga_enabled() is True
    if fuser == "nnc":
        return bool(switch._jit_texpr_fuser_enabled() and _nnc_reaches(torch))
    return not (switch._jit_can_fuse_on_cpu() or switch._jit_can_fuse_on_gpu())


def _nnc_reaches(torch: Any) -> bool:
    """True if NNC may fuse on the device that this process uses: the GPU once CUDA
    is initialised."""
    switch = torch._C
    if torch.cuda.is_initialized():
        return bool(switch._jit_can_fuse_on_gpu())
    runs = switch._llvm_enabled() or not switch._jit_get_te_must_use_llvm_cpu()
    return bool(switch._jit_can_fuse_on_cpu() and runs)


def fuser_on(torch: Any) -> str | None:
    """The fuser that is on, or None: the first in the order in which TorchScript
    tries them."""
    known = ["nnc"]
    if hasattr(torch._C, "_jit_llga_enabled"):
        known.insert(0, "onednn")
    if torch_release(torch) < (2, 2) and torch.cuda.is_initialized():
        known.insert(0, "nvfuser")
    return next((fuser for fuser in known if is_on(torch, fuser)), None)


def read_back(torch: Any) -> tuple[Any, ...]:
    """The current switches, to see whether somebody else has changed them."""
    switch = torch._C
    nvfuser = None
    if torch_release(torch) < (2, 2):
        nvfuser = switch._jit_nvfuser_enabled()
    return (
        nvfuser,
        switch._jit_can_fuse_on_cpu(),
        switch._jit_can_fuse_on_gpu(),
        switch._jit_can_fuse_on_cpu_legacy(),
        switch._jit_texpr_fuser_enabled(),
        switch._jit_get_te_must_use_llvm_cpu(),
        switch._jit_llga_enabled()
        if hasattr(switch, "_jit_llga_enabled")
        else None,
    )


def executor_off(torch: Any) -> list[str]:
    """Names of the executor's knobs that nvFuser and NNC need and that are
    currently off."""
    switch = torch._C
    off = []
    for knob, set_it in (
        ("profiling_executor", switch._jit_set_profiling_executor),
        ("profiling_mode", switch._jit_set_profiling_mode),
    ):
        before = set_it(True)  # the only way to read it
        set_it(before)
        if not before:
            off.append(knob)
    if not switch._get_graph_executor_optimize():
        off.append("graph_optimize")
    return off


_SOURCE = "def small(x, y):\n    return (x * y + x).relu() * y\n"


def try_fusers(torch: Any, records: Records) -> None:
    """Write for every fuser a record ``available`` {"fuser", "available", "why",
    "device"}.

    nvFuser comes last, after a record ``trying``: on a GPU that is newer than
    nvFuser it kills the process (torch 1.12 dies of SIGFPE on compute capability
    9.0).
    """
    # So that a group that fails to compile raises instead of running unfused; read
    # once, at the first use.
    os.environ["PYTORCH_NVFUSER_DISABLE"] = "fallback"
    os.environ["PYTORCH_NVFUSER_DISABLE_FALLBACK"] = "1"
    records.write(
        "available",
        fuser="none",
        available=True,
        why=note_on_fuser(torch, "none"),
        device=None,
    )
    problem = why_no_inductor(torch)
    can, why = (False, problem) if problem is not None else tools_of_inductor(torch)
    records.write("available", fuser=COMPILER, available=can, why=why, device=None)
    for name in GROUPS:
        records.write("trying", fuser=name)
        records.write("available", fuser=name, **_try(torch, name))


def _try(torch: Any, name: str) -> dict[str, Any]:
    missing = why_not(torch, name)
    if missing is not None:
        return {"available": False, "why": missing, "device": None}
    on_gpu = torch.cuda.is_available() and name != "onednn"
    device = "cuda" if on_gpu else "cpu"
    try:
        switch_on(torch, name)
        with KeptStderr():
            made = _makes_group(torch, GROUPS[name], device)
    except Exception as error:
        problem = (
            "a small function failed under it: "
            + str(error).strip().split("\n")[-1]
        )
        return {"available": False, "why": problem, "device": device}
    if not made:
        return {
            "available": False,
            "why": "it fuses nothing in a small function on " + device,
            "device": device,
        }
    remark = note_on_fuser(torch, name)
    why = "fused a small function on the " + ("GPU" if on_gpu else "CPU")
    return {
        "available": True,
        "why": "%s: %s" % (why, remark) if remark else why,
        "device": device,
    }


def _makes_group(torch: Any, kind: str, device: str) -> bool:
    small = torch.jit.CompilationUnit(_SOURCE).small
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    with torch.no_grad():
        for _ in range(torch._C._jit_get_num_profiled_runs() + 2):
            small(x, y)
    if device == "cuda":
        torch.cuda.synchronize()
    return bool(list(torch._C._last_executed_optimized_graph().findAllNodes(kind)))


# -- the switches of a process ------------------------------------------------------------------------------

_GETTERS = {
    "_jit_override_can_fuse_on_cpu": "_jit_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu": "_jit_can_fuse_on_gpu",
    "_jit_set_texpr_fuser_enabled": "_jit_texpr_fuser_enabled",
    "_jit_set_te_must_use_llvm_cpu": "_jit_get_te_must_use_llvm_cpu",
    "_jit_set_llga_enabled": "_jit_llga_enabled",
    "_jit_override_can_fuse_on_cpu_legacy": "_jit_can_fuse_on_cpu_legacy",
    "_jit_set_nvfuser_enabled": "_jit_nvfuser_enabled",
}
"""Function of ``torch._C`` that sets a switch -> the function that reads it."""


def switches_of(torch: Any) -> dict[str, bool]:
    """The switches of this process, by the function that sets each; only those that
    this torch can read."""
    found = {}
    for setter, getter in _GETTERS.items():
        if setter == "_jit_set_nvfuser_enabled" and torch_release(torch) >= (2, 2):
            continue  # a no-op that prints a warning
        with contextlib.suppress(AttributeError, RuntimeError):
            found[setter] = bool(getattr(torch._C, getter)())
    return found


def fuser_by(switches: dict[str, bool], device: str, llvm: bool) -> str:
    """Return the fuser that fuses on a device with these switches, or "none"
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp; of NNC
    ``canFuseOnDevice`` of torch/csrc/jit/passes/tensorexpr_fuser.cpp).

    Args:
        llvm: this torch was built with it, so that NNC has a compiler for the CPU.
    """
    on = switches.get
    if device == "cuda" and on("_jit_set_nvfuser_enabled"):
        return "nvfuser"
    if device == "cpu" and on("_jit_set_llga_enabled"):
        return "onednn"
    if device == "cpu" and not llvm and on("_jit_set_te_must_use_llvm_cpu"):
        return "none"
    may = on(
        "_jit_override_can_fuse_on_%s" % ("gpu" if device == "cuda" else "cpu")
    )
    if may and on("_jit_set_texpr_fuser_enabled"):
        return "nnc"
    return "none"


def switched_on(torch: Any) -> str | None:
    """The fuser that this process has switched on and that can fuse here; None if
    torch has no function to read it."""
    switch = torch._C
    built_with_cuda = torch.version.cuda is not None
    with contextlib.suppress(AttributeError, RuntimeError):
        if (
            built_with_cuda
            and torch_release(torch) < (2, 2)
            and is_on(torch, "nvfuser")
        ):
            return "nvfuser"
        if hasattr(switch, "_jit_llga_enabled") and switch._jit_llga_enabled():
            return "onednn"
        gpu = built_with_cuda and switch._jit_can_fuse_on_gpu()
        if switch._jit_texpr_fuser_enabled() and (
            switch._jit_can_fuse_on_cpu() or gpu
        ):
            return "nnc"
        if switch._jit_can_fuse_on_cpu_legacy():
            return "legacy"
        return "none"
    return None


SETTERS = (
    "_jit_set_texpr_fuser_enabled",
    "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu",
    "_jit_override_can_fuse_on_cpu_legacy",
    "_jit_set_te_must_use_llvm_cpu",
    "_jit_set_nvfuser_enabled",
    "_jit_set_llga_enabled",
    "_jit_set_profiling_executor",
    "_jit_set_profiling_mode",
    "_set_graph_executor_optimize",
    "_get_graph_executor_optimize",
)
"""Functions of ``torch._C`` that set a switch; the last one does so only if it gets
an argument."""

_NNC_VARIABLE = "PYTORCH_TENSOREXPR"
"""torch reads it once, in the first check whether NNC is on (tensorExprFuserEnabled
of torch/csrc/jit/passes/tensorexpr_fuser.cpp): under fusiondoc that is before the
program could set it."""


def variable_of(fuser: str | None) -> str | None:
    """The variable with which a program switches the fuser off, which is too late
    for its own process."""
    if fuser == "nnc":
        return _NNC_VARIABLE
    return None


def off_in_process(torch: Any) -> list[str]:
    """Switches that are on in a new process and off in this one, which fusiondoc
    has not changed: NNC as a whole (``FUSER``; whether it may fuse on the CPU is
    another switch), and those of the executor that it needs."""
    nnc = [] if torch._C._jit_texpr_fuser_enabled() else [FUSER]
    return nnc + executor_off(torch)


# -- requirements of a fuser on a model ----------------------------------------------------------------------


def needs_frozen(fuser: str) -> bool:
    """True if the fuser sees weights only in frozen modules."""
    return fuser == "onednn"


def has_compiler(torch: Any, fuser: str, on_gpu: bool) -> bool:
    """True if this torch can compile for the device of the model: NNC has no
    compiler for the CPU in builds without LLVM."""
    return fuser != "nnc" or on_gpu or bool(torch._C._llvm_enabled())


def of_graphs(torch: Any, on_gpu: bool) -> str:
    """The fuser for graphs of AOTAutograd: "none" if none can compile."""
    fuser = "nvfuser" if why_no_nvfuser(torch) is None else "nnc"
    if has_compiler(torch, fuser, on_gpu):
        return fuser
    return "none"


def why_not_timed(
    torch: Any, fuser: str, on_gpu: bool, backward: bool, in_training: bool
) -> str | None:
    """Return why the model cannot be timed under a fuser, or why its times would be
    meaningless; None if it can be timed.

    Args:
        on_gpu: the model is on the GPU.
        in_training: it is a module in training mode that is not scripted yet.
    """
    if not has_compiler(torch, fuser, on_gpu):
        return (
            "NNC has no compiler for the CPU in this torch (no LLVM): it would run through an evaluator that"
            " is hundreds of times slower than any kernel, and its speed means nothing"
        )
    if fuser == "onednn" and backward:
        return "oneDNN Graph fuses frozen modules in eval mode only: there is no backward pass"
    if fuser == "onednn" and on_gpu:
        return "oneDNN Graph compiles for the CPU only, and the model is on the GPU"
    if fuser == "onednn" and in_training:
        return "oneDNN Graph fuses modules in eval mode only, and this one is in training mode"
    return None
