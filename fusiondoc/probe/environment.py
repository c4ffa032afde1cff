"""The environment of the probe (Python, torch, the GPU and its memory), and which fusers work here; choosing
a fuser, and switching it on for the rest of the process.

The switches are those of ``torch.jit.fuser`` (torch/jit/_fuser.py), set for good instead of inside a context:
plans compile at run time, wherever the user's code calls the model. Whether a fuser works is found with a
small function that is run under it: its plan must hold a fusion group.
"""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import platform
import re
import sys
from typing import Any

from . import CANNOT_RUN, Refused, first_line
from .log_and_records import KeptStderr, Records

_CU_MEMORY_CLOCK_RATE = 36
_CU_GLOBAL_MEMORY_BUS_WIDTH = 37
_CU_L2_CACHE_SIZE = 38
"""``CUdevice_attribute`` numbers of ``cuda.h``."""


def interpreter_facts() -> dict[str, Any]:
    """Python's and torch's versions without importing torch (its ``version.py`` is read, not run).

    ``torch`` is None without torch; ``torch_cuda`` and ``torch_hip`` are None in builds without them;
    ``version_file`` is the file whose change means another torch.
    """
    facts: dict[str, Any] = {
        "executable": sys.executable,
        "prefix": sys.prefix,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "torch": None,
        "torch_cuda": None,
        "torch_hip": None,
        "version_file": None,
    }
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return facts
    path = os.path.join(os.path.dirname(spec.origin), "version.py")
    facts["version_file"] = path if os.path.isfile(path) else spec.origin
    constants = _constants(path)
    if "__version__" not in constants:
        # A build with another layout: import torch itself.
        version: Any = __import__("torch").version
        constants = {name: getattr(version, name, None) for name in ("__version__", "cuda", "hip")}
    facts["torch"] = str(constants["__version__"])
    facts["torch_cuda"] = constants.get("cuda")
    facts["torch_hip"] = constants.get("hip")
    return facts


def _constants(path: str) -> dict[str, Any]:
    """Names that the file at ``path`` gives a literal, such as ``cuda: Optional[str] = '12.1'``."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, Any] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        try:
            value = ast.literal_eval(statement.value) if statement.value is not None else None
        except ValueError:
            continue
        found.update((target.id, value) for target in targets if isinstance(target, ast.Name))
    return found


def torch_environment(torch: Any, device: bool = True) -> dict[str, Any]:
    """The ``environment`` record. ``device`` False leaves the GPU alone (no CUDA call is made): a script that
    forks after CUDA has been touched would fail, though it works by hand."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "llvm": bool(torch._C._llvm_enabled()),
        "gpu": None,
        "capability": None,
        "gpu_count": None,
        "driver": _driver_version(),
    }
    if device:
        facts.update(gpu_facts(torch))
    return facts


def _driver_version() -> str | None:
    """Version of NVIDIA's driver, such as "535.104.05": the first number of that form in
    /proc/driver/nvidia/version (Linux); None without that file."""
    try:
        with open("/proc/driver/nvidia/version", "rb") as file:
            found = re.search(rb"\d{3,4}\.\d{1,4}(?:\.\d{1,4})?", file.readline(500))
    except OSError:
        return None
    return found.group().decode() if found is not None else None


def gpu_facts(torch: Any) -> dict[str, Any]:
    """Name, compute capability and memory of the current CUDA device; ``gpu_count`` 0 without one.

    ``gpu_memory_gb_per_s`` is the bandwidth by clock rate (kHz, two transfers a cycle) and bus width (bits),
    in 10^9 bytes a second; None where the driver does not report them."""
    if not torch.cuda.is_available():
        return {"gpu_count": 0}
    index = torch.cuda.current_device()
    facts: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(index),
        "capability": list(torch.cuda.get_device_capability(index)),
        "gpu_count": torch.cuda.device_count(),
        "gpu_memory_bytes": torch.cuda.get_device_properties(index).total_memory,
        "gpu_memory_gb_per_s": None,
        "gpu_l2_bytes": None,
    }
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return facts
    clock_khz = _attribute(driver, _CU_MEMORY_CLOCK_RATE, index)
    bus_bits = _attribute(driver, _CU_GLOBAL_MEMORY_BUS_WIDTH, index)
    facts["gpu_l2_bytes"] = _attribute(driver, _CU_L2_CACHE_SIZE, index)
    if clock_khz and bus_bits:
        facts["gpu_memory_gb_per_s"] = round(2.0 * clock_khz * 1e3 * bus_bits / 8 / 1e9, 1)
    return facts


def _attribute(driver: Any, attribute: int, index: int) -> int | None:
    value = ctypes.c_int(0)
    device = ctypes.c_int(0)
    if driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) != 0:
        return None
    return value.value or None


def take_own_gpu(torch: Any) -> None:
    """Of a model that runs in several ranks each has a GPU of its own, as programs under torch's launcher
    choose it: ``cuda`` is the GPU with the local rank's number."""
    local = os.environ.get("LOCAL_RANK", "")
    if local.isdigit() and torch.cuda.is_available():
        torch.cuda.set_device(int(local) % torch.cuda.device_count())


_SWITCHES = {
    # (fuse on CPU, fuse on GPU, tensor expressions, nvFuser, oneDNN Graph)
    "nnc": (True, True, True, False, False),
    "nvfuser": (False, False, False, True, False),
    "onednn": (True, False, True, False, True),
    "none": (False, False, False, False, False),
}

_NVFUSER_RANGE = "nvFuser is in TorchScript of torch 1.12 to 2.1 with CUDA"


def torch_release(torch: Any) -> tuple[int, int]:
    """(major, minor) of this torch."""
    match = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def why_no_nvfuser(torch: Any) -> str | None:
    """Why nvFuser cannot work here, or None if it can.

    From 2.2 on its switches are no-ops that print a warning each, so they are not even called there. Below,
    the binary is tried: with a device and the switch set, the switch must read back as True.
    """
    this = "this is torch %s" % torch.__version__
    if torch_release(torch) >= (2, 2):
        return "%s; %s" % (_NVFUSER_RANGE, this)
    if torch.version.cuda is None:
        return "%s; %s, a build without CUDA" % (_NVFUSER_RANGE, this)
    if not torch.cuda.is_available():
        return "nvFuser needs an NVIDIA GPU, and torch %s sees none here" % torch.__version__
    switch = torch._C
    # Without the profiling executor torch says that it was built without CUDA (codegen/cuda/interface.cpp).
    executor = switch._jit_set_profiling_executor(True)
    try:
        before = switch._jit_nvfuser_enabled()
        switch._jit_set_nvfuser_enabled(True)
        works = switch._jit_nvfuser_enabled() is True
        switch._jit_set_nvfuser_enabled(bool(before))
    except (AttributeError, RuntimeError) as error:
        return "torch %s cannot switch nvFuser on: %s" % (torch.__version__, first_line(error))
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
        return "oneDNN Graph is in torch from 1.12 on; this is torch %s" % torch.__version__
    before = torch._C._jit_llga_enabled()
    try:
        enable(True)
        works = torch._C._jit_llga_enabled() is True
        enable(bool(before))
    except RuntimeError as error:
        return "torch %s cannot switch oneDNN Graph on: %s" % (torch.__version__, first_line(error))
    return None if works else "torch %s does not switch oneDNN Graph on" % torch.__version__


INDUCTOR = "inductor"
"""The fuser of torch.compile, which no switch of TorchScript concerns."""

_FIRST_INDUCTOR = (2, 6)


def why_no_inductor(torch: Any) -> str | None:
    """Why the graphs of Inductor cannot be seen here, or None if they can."""
    if torch_release(torch) < _FIRST_INDUCTOR or not hasattr(torch, "compile"):
        return "its scheduler is read from torch 2.6 on; this is torch %s" % torch.__version__
    return None


def is_compiler(fuser: str) -> bool:
    """Whether it is the fuser of torch.compile."""
    return fuser == INDUCTOR


def may_be_inductor(torch: Any, spec: dict[str, Any], fuser: str) -> bool:
    """Whether the run is one of torch.compile if the program comes to that by itself.

    Args:
        fuser: the one that is switched on.
    """
    if fuser == INDUCTOR:
        return True
    automatic = spec["fuser"] == "auto" and (spec.get("frontend") or "auto") == "auto"
    return automatic and why_no_inductor(torch) is None


_PROBLEMS = {"nvfuser": why_no_nvfuser, "onednn": why_no_onednn, INDUCTOR: why_no_inductor}
"""Fusers that some releases, builds or machines do not have."""


def why_not(torch: Any, fuser: str) -> str | None:
    """Why a fuser cannot work here, or None if it can."""
    problem = _PROBLEMS.get(fuser)
    return None if problem is None else problem(torch)


def choose_fuser(torch: Any, requested: str) -> tuple[str, str]:
    """The fuser that ``requested`` means here and a sentence why; Refused (status 4) if it cannot work."""
    nvfuser_problem = why_no_nvfuser(torch) if requested in ("auto", "nvfuser") else None
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
    if requested == INDUCTOR:
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
                "fuser", "oneDNN Graph cannot work here: " + problem, "Use --fuser nnc.", CANNOT_RUN
            )
    remark = note_on_fuser(torch, requested)
    return requested, "asked for; " + remark if remark else "asked for"


def note_on_fuser(torch: Any, fuser: str) -> str | None:
    """A remark on a fuser on this machine, or None."""
    if fuser == "nnc" and not torch.cuda.is_available() and not torch._C._llvm_enabled():
        return (
            "through its own evaluator on the CPU, because this build has no LLVM (true groups, slow kernels)"
        )
    return {
        "onednn": "weights of frozen modules only",
        "none": "every fuser off",
    }.get(fuser)


def switch_on(torch: Any, fuser: str) -> None:
    """Set every switch for ``fuser``."""
    if fuser == INDUCTOR:
        return
    cpu, gpu, tensor_expressions, nvfuser, onednn = _SWITCHES[fuser]
    switch = torch._C
    llvm = bool(switch._llvm_enabled())
    if fuser == "onednn" and not llvm:
        cpu = False  # What oneDNN leaves over would go to NNC, which has no CPU backend in this build.
    # The executor comes first: without the profiling one nvFuser cannot be switched on.
    switch._jit_set_profiling_executor(True)
    switch._get_graph_executor_optimize(True)
    switch._jit_override_can_fuse_on_cpu(cpu)
    switch._jit_override_can_fuse_on_gpu(gpu)
    switch._jit_set_texpr_fuser_enabled(tensor_expressions)
    if torch_release(torch) < (2, 2) and (nvfuser or torch.version.cuda is not None):
        switch._jit_set_nvfuser_enabled(nvfuser)
    if hasattr(switch, "_jit_set_llga_enabled"):
        switch._jit_set_llga_enabled(onednn)
    switch._jit_override_can_fuse_on_cpu_legacy(False)
    if fuser == "nnc" and not llvm:
        # With the default True nothing fuses on the CPU at compile time, or the second run dies of
        # "LLVM Backend not found".
        switch._jit_set_te_must_use_llvm_cpu(False)


def is_on(torch: Any, fuser: str) -> bool:
    """Whether the switches read back as ``fuser`` needs them."""
    if fuser == INDUCTOR:
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
    """Whether NNC may fuse on the device that this process uses: the GPU once CUDA is initialised."""
    switch = torch._C
    if torch.cuda.is_initialized():
        return bool(switch._jit_can_fuse_on_gpu())
    runs = switch._llvm_enabled() or not switch._jit_get_te_must_use_llvm_cpu()
    return bool(switch._jit_can_fuse_on_cpu() and runs)


def fuser_on(torch: Any) -> str | None:
    """The fuser that is on, or None: the first in the order in which TorchScript tries them."""
    known = ["nnc"]
    if hasattr(torch._C, "_jit_llga_enabled"):
        known.insert(0, "onednn")
    if torch_release(torch) < (2, 2) and torch.cuda.is_initialized():
        known.insert(0, "nvfuser")
    return next((fuser for fuser in known if is_on(torch, fuser)), None)


def read_back(torch: Any) -> tuple[Any, ...]:
    """The switches as they are now, to see whether somebody else has changed them."""
    switch = torch._C
    nvfuser = switch._jit_nvfuser_enabled() if torch_release(torch) < (2, 2) else None
    return (
        nvfuser,
        switch._jit_can_fuse_on_cpu(),
        switch._jit_can_fuse_on_gpu(),
        switch._jit_can_fuse_on_cpu_legacy(),
        switch._jit_texpr_fuser_enabled(),
        switch._jit_get_te_must_use_llvm_cpu(),
        switch._jit_llga_enabled() if hasattr(switch, "_jit_llga_enabled") else None,
    )


def executor_off(torch: Any) -> list[str]:
    """Names of the executor's knobs that nvFuser and NNC need and that are off now."""
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


_GROUP_KINDS = {
    "nnc": "prim::TensorExprGroup",
    "onednn": "prim::oneDNNFusionGroup",
    "nvfuser": "prim::CudaFusionGroup",
}

_SOURCE = "def small(x, y):\n    return (x * y + x).relu() * y\n"


def try_fusers(torch: Any, records: Records) -> None:
    """For every fuser a record ``available`` {"fuser", "available", "why", "device"}.

    nvFuser comes last, after a record ``trying``: on a GPU newer than itself it ends the process (torch 1.12
    dies of SIGFPE on compute capability 9.0).
    """
    # So that a group that fails to compile raises instead of running unfused; read once, at the first use.
    os.environ["PYTORCH_NVFUSER_DISABLE"] = "fallback"
    os.environ["PYTORCH_NVFUSER_DISABLE_FALLBACK"] = "1"
    records.write("available", fuser="none", available=True, why=note_on_fuser(torch, "none"), device=None)
    for name in _GROUP_KINDS:
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
            made = _makes_group(torch, _GROUP_KINDS[name], device)
    except Exception as error:
        problem = "a small function failed under it: " + str(error).strip().split("\n")[-1]
        return {"available": False, "why": problem, "device": device}
    if not made:
        return {
            "available": False,
            "why": "it fuses nothing in a small function on " + device,
            "device": device,
        }
    remark = note_on_fuser(torch, name)
    why = "fused a small function on the " + ("GPU" if on_gpu else "CPU")
    return {"available": True, "why": "%s: %s" % (why, remark) if remark else why, "device": device}


def _makes_group(torch: Any, kind: str, device: str) -> bool:
    small = torch.jit.CompilationUnit(_SOURCE).small
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    with torch.no_grad():
        for _ in range(torch._C._jit_get_num_profiled_runs() + 2):
            small(x, y)
    if device == "cuda":
        torch.cuda.synchronize()
    return bool(list(torch._C._last_executed_optimized_graph().findAllNodes(kind)))
