"""Programs in which two nodes of Inductor stay apart on a GPU, and each with the
change that the cause names.

    python benchmarks/inductor_apart.py NAME apart|one [--device cuda]

Those of ``tests/apart_programs.py``, which any device has, and those that need a
GPU. The name of a case begins with the code of its cause; a cause can have several.
``apart`` is compiled to two nodes or more, ``one`` to one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, ClassVar

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import apart_programs

# mypy: disable-error-code="no-untyped-def"

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def doubled(source, result, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        value = tl.load(source + at, mask=at < count)
        tl.store(result + at, value * 2, mask=at < count)

    @triton.jit
    def doubled_and_one_more(source, result, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        value = tl.load(source + at, mask=at < count)
        tl.store(result + at, value * 2 + 1, mask=at < count)


def launched(kernel, x):
    result = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, result, x.numel(), block=1024)
    return result


class Case:
    """``options`` of torch.compile, by which of the two."""

    apart_options: ClassVar[Any] = None
    one_options: ClassVar[Any] = None


class FD263_before_broadcast(Case):
    """Do the smaller part on the sizes of the other."""

    def inputs(device):
        return torch.randn(64, 96, device=device), torch.randn(64, 1, device=device)

    def apart(x, y):
        return x * y, y.exp()

    def one(x, y):
        return x * y, y.expand(64, 96).exp()


class FD266_sum_of_all(Case):
    """Sum up in one kernel whose blocks cooperate."""

    one_options: ClassVar[Any] = {"triton.cooperative_reductions": True}

    def inputs(device):
        return (torch.randn(4096, 4096, device=device),)

    def apart(x):
        return x.sum()

    one = apart


class FD266_few_results(Case):
    """Keep a larger dimension."""

    def inputs(device):
        return (torch.randn(8, 1 << 20, device=device),)

    def apart(x):
        return x.sum(1)

    def one(x):
        return x.view(8192, -1).sum(1)


class FD268_two_transposes(Case):
    """Fuse whatever the tiling."""

    one_options: ClassVar[Any] = {"triton.tiling_prevents_pointwise_fusion": False}

    def inputs(device):
        return torch.randn(128, 128, 128, device=device), torch.randn(
            128, 128, 128, device=device
        )

    def apart(x, y):
        return x.permute(0, 2, 1) + y, x.permute(2, 1, 0) * y

    one = apart


class FD268_sum_of_transposed(Case):
    """Fuse whatever the tiling."""

    one_options: ClassVar[Any] = {"triton.tiling_prevents_reduction_fusion": False}

    def inputs(device):
        return tuple(torch.randn(4096, 32, 32, device=device) for _ in range(2))

    def apart(x, y):
        z = (x.permute(0, 2, 1) + y).contiguous()
        return z, z.view(4096, -1).sum(1)

    one = apart


_TRITON_ALONE = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}


class FD269_no_epilogue(Case):
    """Let templates take in what follows."""

    apart_options: ClassVar[Any] = {**_TRITON_ALONE, "epilogue_fusion": False}
    one_options: ClassVar[Any] = {
        **_TRITON_ALONE,
        "benchmark_epilogue_fusion": False,
    }

    def inputs(device):
        return tuple(
            torch.randn(256, 256, device=device, dtype=torch.float16)
            for _ in range(2)
        )

    def apart(x, y):
        return torch.relu(x @ y)

    one = apart


class FD269_reduction(FD269_no_epilogue):
    """An element-wise reader in place of a reduction."""

    apart_options: ClassVar[Any] = FD269_no_epilogue.one_options

    def apart(x, y):
        return (x @ y).sum(1)

    def one(x, y):
        return (x @ y) * 2


class FD270_kernel_of_the_program(Case):
    """Do it in the kernel."""

    def inputs(device):
        return (torch.randn(1 << 20, device=device),)

    def apart(x):
        return launched(doubled, x) + 1

    def one(x):
        return launched(doubled_and_one_more, x)


class FD272_scalar_of_the_host(Case):
    """Move the tensor to the device before."""

    apart_options: ClassVar[Any] = {
        "cpp.vec_isa_ok": True,
        "cpp_cache_precompile_headers": False,
    }

    def inputs(device):
        return torch.randn(64, device=device), torch.randn(64)

    def apart(x, y):
        return x * y.sum()

    one = apart

    def one_inputs(device):
        return torch.randn(64, device=device), torch.randn(64, device=device)


class FD272_scalar_for_both(FD272_scalar_of_the_host):
    """Move the tensors to one device before."""

    def inputs(device):
        return torch.randn(64, device=device), torch.randn(64), torch.tensor(2.0)

    def apart(x, y, scale):
        return x * scale, y * scale

    one = apart

    def one_inputs(device):
        return tuple(torch.randn(size, device=device) for size in (64, 64, ()))


class FD275_two_transposes(Case):
    """Fuse without a benchmark. One loop cannot read both in the order of their
    memory."""

    one_options: ClassVar[Any] = {"triton.tiling_prevents_pointwise_fusion": False}
    apart_options: ClassVar[Any] = {**one_options, "benchmark_fusion": True}

    def inputs(device):
        return torch.randn(512, 512, 512, device=device), torch.randn(
            512, 512, 512, device=device
        )

    def apart(x, y):
        return x.permute(0, 2, 1) + y, x.permute(2, 1, 0) * y

    one = apart


class FD276_other_lengths(Case):
    """Lists of one length."""

    def inputs(device):
        return tuple(torch.randn(64, 96, device=device) for _ in range(4))

    def apart(*tensors):
        added = torch._foreach_add(list(tensors), 1.0)
        return added, torch._foreach_mul(added[:-1], 2.0)

    def one(*tensors):
        added = torch._foreach_add(list(tensors), 1.0)
        return added, torch._foreach_mul(added, 2.0)


class FD276_reduction(FD276_other_lengths):
    """An element-wise reader in place of a reduction."""

    def apart(*tensors):
        added = torch._foreach_add(list(tensors), 1.0)
        return added, added[0].sum(1)

    def one(*tensors):
        added = torch._foreach_add(list(tensors), 1.0)
        return added, added[0] * 2


OF_GPUS = {case.__name__: case for case in Case.__subclasses__()}
for _case in list(OF_GPUS.values()):
    OF_GPUS.update({one.__name__: one for one in _case.__subclasses__()})
_OF_THE_CPU_ALONE = ("FD263", "FD279")
OF_ANY = {
    name: case
    for name, case in apart_programs.CASES.items()
    if name not in _OF_THE_CPU_ALONE
}
CASES: dict[str, Any] = {**OF_GPUS, **OF_ANY}


def run(name: str, which: str, device: str) -> None:
    """Compile and run one of the two of a case."""
    case = CASES[name]
    if name in OF_ANY:
        torch.compile(getattr(case, which))(torch.randn(64, 96, device=device))
        return
    options = getattr(case, which + "_options")
    inputs = getattr(case, which + "_inputs", None) or case.inputs
    torch.compile(getattr(case, which), options=options)(*inputs(device))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CASES)
    parser.add_argument("which", choices=("apart", "one"))
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    run(given.name, given.which, given.device)
