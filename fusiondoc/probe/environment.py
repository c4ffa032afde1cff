"""The environment of the probe: Python, torch, the GPU and its memory."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import platform
import re
import sys
from typing import Any

_CU_MEMORY_CLOCK_RATE = 36
_CU_GLOBAL_MEMORY_BUS_WIDTH = 37
"""``CUdevice_attribute`` numbers of ``cuda.h``."""


def interpreter_facts() -> dict[str, Any]:
    """Python's and torch's versions without importing torch (its ``version.py`` is
    read, not run).

    ``torch`` is None without torch; ``torch_cuda`` is None in builds without it;
    ``version_file`` is the file that changes with the version of torch.
    """
    facts: dict[str, Any] = {
        "executable": sys.executable,
        "prefix": sys.prefix,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "torch": None,
        "torch_cuda": None,
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
        constants = {}
        for name in ("__version__", "cuda", "hip"):
            constants[name] = getattr(version, name, None)
    facts["torch"] = str(constants["__version__"])
    facts["torch_cuda"] = constants.get("cuda")
    return facts


def _constants(path: str) -> dict[str, Any]:
    """Literal values of names in the file at ``path``, such as ``cuda:
    Optional[str] = '12.1'``."""
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
            value = None
            if statement.value is not None:
                value = ast.literal_eval(statement.value)
        except ValueError:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = value
    return found


def torch_environment(torch: Any, device: bool = True) -> dict[str, Any]:
    """The ``environment`` record. ``device`` False leaves the GPU alone (no CUDA
    call is made): a script that forks after CUDA has been touched would fail,
    though it works by hand."""
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
    """Version of NVIDIA's driver, such as "535.104.05": the first number of that
    form in /proc/driver/nvidia/version (Linux); None without that file."""
    try:
        with open("/proc/driver/nvidia/version", "rb") as file:
            found = re.search(
                rb"\d{3,4}\.\d{1,4}(?:\.\d{1,4})?", file.readline(500)
            )
    except OSError:
        return None
    if found is None:
        return None
    return found.group().decode()


def gpu_facts(torch: Any) -> dict[str, Any]:
    """Name, compute capability and memory bandwidth of the current CUDA device;
    ``gpu_count`` 0 without one.

    ``gpu_memory_gb_per_s`` is the bandwidth by clock rate (kHz, two transfers a
    cycle) and bus width (bits), in 10^9 bytes a second; None where the driver does
    not report them."""
    if not torch.cuda.is_available():
        return {"gpu_count": 0}
    index = torch.cuda.current_device()
    facts: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(index),
        "capability": list(torch.cuda.get_device_capability(index)),
        "gpu_count": torch.cuda.device_count(),
        "gpu_memory_gb_per_s": None,
    }
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return facts
    clock_khz = _attribute(driver, _CU_MEMORY_CLOCK_RATE, index)
    bus_bits = _attribute(driver, _CU_GLOBAL_MEMORY_BUS_WIDTH, index)
    if clock_khz and bus_bits:
        facts["gpu_memory_gb_per_s"] = round(
            2.0 * clock_khz * 1e3 * bus_bits / 8 / 1e9, 1
        )
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
    """Give each rank of a model its own GPU, as programs under torch's launcher
    choose it: ``cuda`` is the GPU with the local rank's number."""
    local = os.environ.get("LOCAL_RANK", "")
    if local.isdigit() and torch.cuda.is_available():
        torch.cuda.set_device(int(local) % torch.cuda.device_count())


def torch_release(torch: Any) -> tuple[int, int]:
    """(major, minor) of this torch."""
    match = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if match:
        return int(match.group(1)), int(match.group(2))
    return 0, 0
