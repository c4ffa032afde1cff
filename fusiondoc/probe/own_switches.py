"""The fuser that a process has by itself: by torch's defaults, its environment variables and what the program
sets, without what fusiondoc switches on for a run.
"""

from __future__ import annotations

import contextlib
from typing import Any

from . import environment
from .log_and_records import Records

_SWITCHES = {
    "_jit_override_can_fuse_on_cpu": "_jit_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu": "_jit_can_fuse_on_gpu",
    "_jit_set_texpr_fuser_enabled": "_jit_texpr_fuser_enabled",
    "_jit_set_te_must_use_llvm_cpu": "_jit_get_te_must_use_llvm_cpu",
    "_jit_set_llga_enabled": "_jit_llga_enabled",
    "_jit_override_can_fuse_on_cpu_legacy": "_jit_can_fuse_on_cpu_legacy",
    "_jit_set_nvfuser_enabled": "_jit_nvfuser_enabled",
}
"""Function of ``torch._C`` that sets a switch -> the one that reads it."""

DEVICES = ("cpu", "cuda")


def switches_of(torch: Any) -> dict[str, bool]:
    """The switches of this process, by the function that sets each; those that this torch can read."""
    found = {}
    for setter, getter in _SWITCHES.items():
        if setter == "_jit_set_nvfuser_enabled" and environment.torch_release(torch) >= (2, 2):
            continue  # a no-op that prints a warning
        with contextlib.suppress(AttributeError, RuntimeError):
            found[setter] = bool(getattr(torch._C, getter)())
    return found


def fuser_by(switches: dict[str, bool], device: str, llvm: bool) -> str:
    """The fuser that fuses on a device with these switches, "none" without one
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp; of NNC ``canFuseOnDevice`` of
    torch/csrc/jit/passes/tensorexpr_fuser.cpp).

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
    may = on("_jit_override_can_fuse_on_%s" % ("gpu" if device == "cuda" else "cpu"))
    return "nnc" if may and on("_jit_set_texpr_fuser_enabled") else "none"


class OwnSwitches:
    """The switches that a program sets, while fusiondoc has set others for the run (``switch_watch.py`` sees
    the calls).

    Made before fusiondoc sets any. A program may set switches for a while (``with torch.jit.fuser(...)``), so
    a fuser that was on once counts as on.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._llvm = bool(torch._C._llvm_enabled())
        self._switches = switches_of(torch)
        self._fusers = self._now()

    def _now(self) -> dict[str, str]:
        return {device: fuser_by(self._switches, device, self._llvm) for device in DEVICES}

    def note(self, setter: str, value: Any) -> None:
        """The program called ``torch._C.SETTER(value)``."""
        if setter not in self._switches:
            return
        self._switches[setter] = bool(value)
        for device, fuser in self._now().items():
            if fuser != "none" or self._fusers[device] != "none":
                self._fusers[device] = fuser

    def write(self, records: Records) -> None:
        """A record ``by_itself`` {"fusers": of each device, "switches": by the functions that set them}."""
        records.write("by_itself", fusers=self._fusers, switches=self._switches)


def switched_on(torch: Any) -> str | None:
    """The fuser that this process has switched on and can reach; None where torch has no function for it."""
    switch = torch._C
    built_with_cuda = torch.version.cuda is not None
    with contextlib.suppress(AttributeError, RuntimeError):
        if (
            built_with_cuda
            and environment.torch_release(torch) < (2, 2)
            and environment.is_on(torch, "nvfuser")
        ):
            return "nvfuser"
        if hasattr(switch, "_jit_llga_enabled") and switch._jit_llga_enabled():
            return "onednn"
        gpu = built_with_cuda and switch._jit_can_fuse_on_gpu()
        if switch._jit_texpr_fuser_enabled() and (switch._jit_can_fuse_on_cpu() or gpu):
            return "nnc"
        return "legacy" if switch._jit_can_fuse_on_cpu_legacy() else "none"
    return None
