"""Inductor generates kernels and compiles none, for ``--no-run``.

The functions that compile a kernel's source (``AsyncCompile`` of
torch/_inductor/async_compile.py) return kernels that do nothing, and new tensors
are zeros, so that indices in them are valid. Graphs, fusion and generated code are
those of a real run; results are not.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Iterator, Sequence

from .replaced import Replaced

_COMPILES = (
    "cpp",
    "cpp_pybinding",
    "triton",
    "cuda",
    "cutlass",
    "rocm",
    "xpu",
    "halide",
    "cutedsl",
    "pallas",
    "nv_universal_gemm",
    "multi_kernel",
    "size_hint_multi_kernel",
)
"""Methods of ``AsyncCompile`` that return a kernel; each version has some of
them."""
_EMPTY = (
    "_empty_strided_cpu",
    "_empty_strided_cuda",
    "_empty_strided_cpu_pinned",
    "_empty_strided_xpu",
)
"""Functions of ``torch._C._dynamo.guards`` with which generated code creates
tensors."""


class _NoKernel:
    """Replaces a kernel: calling it, or any attribute of it, does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a call of a C++ function."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self  # ``run`` of a Triton kernel


@contextlib.contextmanager
def without_kernels(torch: Any) -> Iterator[None]:
    """Context manager: Inductor generates kernels and compiles none; calling them
    does nothing."""
    replaced = Replaced()
    home = importlib.import_module("torch._inductor.async_compile")
    config = importlib.import_module("torch._inductor.config")
    guards = sys.modules.get("torch._C._dynamo.guards")
    isa_was_known = config.cpp.vec_isa_ok
    for name in _COMPILES:
        if hasattr(home.AsyncCompile, name):
            replaced.put(
                home.AsyncCompile, name, lambda *args, **kwargs: _NoKernel()
            )
    for name in _EMPTY:
        if hasattr(guards, name):
            replaced.put(guards, name, _zeros(torch, name))
    config.cpp.vec_isa_ok = (
        True  # else it compiles a small program for each set of instructions
    )
    try:
        yield
    finally:
        config.cpp.vec_isa_ok = isa_was_known
        replaced.take_back()


def _zeros(torch: Any, name: str) -> Any:
    device = "cpu" if "cpu" in name else name.rpartition("_")[2]

    def zeros_strided(
        size: Sequence[int], stride: Sequence[int], dtype: Any
    ) -> Any:
        return torch.empty_strided(size, stride, dtype=dtype, device=device).zero_()

    return zeros_strided
