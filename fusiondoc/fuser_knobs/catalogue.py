"""Looking up knobs, environment variables, dump options and log files.

Versions are given as torch prints them ("2.1.2+cu121") or as (2, 1); None stands for any version.
"""

from __future__ import annotations

from typing import Union

from fusiondoc.fuser_knobs.entries import (
    FuserDump,
    Knob,
    LogFile,
    Option,
    Variable,
    Version,
    exists_in,
    parse_version,
)
from fusiondoc.fuser_knobs.knob_table import KNOBS
from fusiondoc.fuser_knobs.variable_table import VARIABLES
from fusiondoc.fuser_knobs.variable_words import FUSER_DUMPS, LOG_FILES, OPTIONS

TorchVersion = Union[str, Version, None]


def as_version(torch_version: TorchVersion) -> Version | None:
    """(major, minor); UsageError if the text is no version."""
    return parse_version(torch_version) if isinstance(torch_version, str) else torch_version


def knobs() -> tuple[Knob, ...]:
    """Every knob, by fuser."""
    return KNOBS


def knob(name: str) -> Knob | None:
    """The knob of that short name."""
    return next((one for one in KNOBS if one.name == name), None)


def knob_line(name: str, value: str) -> str:
    """The line of Python that sets a knob of one value, as ``env --export`` prints it; by its public name
    where it has one (torch/jit/_fuser.py, 1.12 to 2.13).

    Args:
        value: one that ``checks.check_knob`` takes.

    Raises KeyError for a name that is no knob, ValueError for one that takes operators or a function.
    """
    found = knob(name)
    if found is None:
        raise KeyError(name)
    if found.kind in ("operators", "function"):
        raise ValueError(f"{name} takes more than one value")
    if found.kind == "strategy":
        steps = (step.strip().upper().partition(":") for step in value.split(","))
        listed = ", ".join(f'("{kind.strip()}", {int(depth)})' for kind, _, depth in steps)
        return f"torch.jit.set_fusion_strategy([{listed}])"
    text = value.strip()
    if found.kind == "switch":
        text = str(text.lower() in ("on", "true", "1", "yes"))
    elif found.kind not in ("count", "integer"):
        text = repr(text)
    return f"torch._C.{found.setter}({text})"


def variables() -> tuple[Variable, ...]:
    """Every environment variable, those that no release reads last."""
    return VARIABLES


_OF_DEVICES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CUDNN_V8_API_DISABLED",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_SHOW_CPP_STACKTRACES",
    "TORCH_LOGS",
    "TORCH_CUDA_ARCH_LIST",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def is_kept(name: str) -> bool:
    """Whether a capture keeps the value of this variable of the user's: one that a fuser, or torch in what it
    does on a device, reads. By name, so that no token is kept because of how its name begins."""
    return name in _KEPT


def options(variable: str, torch_version: TorchVersion = None) -> tuple[Option, ...]:
    """The options of PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE that this torch knows."""
    version = as_version(torch_version)
    return tuple(option for option in OPTIONS[variable] if exists_in(option.live, version))


def dump_options(torch_version: TorchVersion = None) -> tuple[str, ...]:
    """What PYTORCH_NVFUSER_DUMP may hold for this torch; nothing where torch has no nvFuser."""
    return tuple(option.name for option in options("PYTORCH_NVFUSER_DUMP", torch_version))


def fuser_dumps(torch_version: TorchVersion = None) -> tuple[FuserDump, ...]:
    """The dumps of NNC and oneDNN Graph that this torch prints."""
    version = as_version(torch_version)
    return tuple(dump for dump in FUSER_DUMPS if exists_in(dump.live, version))


def fuser_dump(name: str) -> FuserDump | None:
    """The dump of NNC or oneDNN Graph of that name; None for an option of PYTORCH_NVFUSER_DUMP."""
    return next((dump for dump in FUSER_DUMPS if dump.name == name), None)


def log_files(torch_version: TorchVersion = None) -> tuple[LogFile, ...]:
    """The files that PYTORCH_JIT_LOG_LEVEL may name for this torch."""
    version = as_version(torch_version)
    return tuple(file for file in LOG_FILES if exists_in(file.live, version))


_KEPT = frozenset((*(variable.name for variable in VARIABLES), *_OF_DEVICES))
