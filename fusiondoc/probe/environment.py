"""What the probe finds around it: Python, torch, the GPU and its memory, and what a large copy within that
reaches."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import platform
import re
import sys
from typing import Any

from .failures import CANNOT_RUN, Refused

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
        # A build with another layout: the only way left is to ask torch itself.
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
    """Of NVIDIA's driver, such as "535.104.05": the first number of that form in what its module tells; None
    without one (Linux: /proc/driver/nvidia/version)."""
    try:
        with open("/proc/driver/nvidia/version", "rb") as file:
            found = re.search(rb"\d{3,4}\.\d{1,4}(?:\.\d{1,4})?", file.readline(500))
    except OSError:
        return None
    return found.group().decode() if found is not None else None


def gpu_facts(torch: Any) -> dict[str, Any]:
    """Name, compute capability and memory of the current CUDA device; ``gpu_count`` 0 without one.

    ``gpu_memory_gb_per_s`` is the bandwidth that clock rate (kHz, two transfers a cycle) and bus width (bits)
    give, in 10^9 bytes a second; None where the driver does not tell.
    """
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


_MOST_BYTES = 1 << 30
"""Far beyond every cache (50 MB of L2 on an H200)."""
_COPIES = 20
_WARM_UP = 3


def measured_bandwidth(torch: Any) -> dict[str, Any]:
    """``gpu``, ``gb_per_s`` (10^9 bytes read plus written in a second, of the median copy) and
    ``copied_bytes``.

    Raises Refused (status 4) without a GPU, or with too little of its memory free to outgrow its caches.
    """
    if not torch.cuda.is_available():
        raise Refused(
            "bandwidth",
            "no GPU to measure: torch %s sees no CUDA device here" % torch.__version__,
            "Run it on the machine with the GPU and a CUDA build of torch (--python), or give the figure to"
            " a report: --peak GB_PER_S.",
            CANNOT_RUN,
        )
    try:
        size = min(_MOST_BYTES, torch.cuda.mem_get_info()[0] // 4) // 512 * 512
        if size < _MOST_BYTES // 8:
            raise Refused(
                "bandwidth",
                "too little of the GPU's memory is free to measure it (%d MB)" % (size * 4 // 10**6),
                "End what else runs on it, or give the figure to a report: --peak GB_PER_S.",
                CANNOT_RUN,
            )
        return dict(_copies(torch, size), gpu=torch.cuda.get_device_name(torch.cuda.current_device()))
    except RuntimeError as error:
        raise Refused(
            "bandwidth", "the GPU cannot copy: %s" % str(error).split("\n")[0], None, CANNOT_RUN
        ) from None


def _copies(torch: Any, size: int) -> dict[str, Any]:
    source = torch.empty(size, dtype=torch.uint8, device="cuda").zero_()
    target = torch.empty_like(source)
    for _ in range(_WARM_UP):
        target.copy_(source)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(_COPIES + 1)]
    for number, mark in enumerate(marks):
        if number:
            target.copy_(source)
        mark.record()
    torch.cuda.synchronize()
    times = sorted(before.elapsed_time(after) for before, after in zip(marks, marks[1:]))
    milliseconds = times[len(times) // 2]
    return {"gb_per_s": round(2.0 * size / (milliseconds * 1e6), 1), "copied_bytes": size}
