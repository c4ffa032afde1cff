"""What was dumped of a kernel, by the names that ``--dump`` has for it."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from fusiondoc.model.report import Dump, Kernel

ENDINGS = {
    "cuda_kernel": ".cu",
    "cuda_full": ".cu",
    "cuda_to_file": ".cu",
    "debug_info": ".cu",
    "nnc_cuda": ".cu",
    "ptx": ".ptx",
}
"""Of the files that ``--save`` writes; all others are ``.txt``."""

LEXERS = {".cu": "cuda", ".ptx": "ptx"}
_C_LIKE = ("nnc_ir", "nnc_stages", "kernel_ir")

FIGURES: Mapping[str, Sequence[str]] = {
    "launch_param": ("block", "grid"),
    "dump_eff_bandwidth": ("ms", "gb_per_s"),
    "ptxas_verbose": ("registers", "spill_bytes"),
}
"""Dumps that are figures of the table, with the fields that they fill."""


def texts(kernel: Kernel) -> tuple[Dump, ...]:
    """All that was dumped of it, its code first."""
    code = kernel.code
    if code is None or any(dump.text == code for dump in kernel.dumps):
        return kernel.dumps
    # cuda_full has the runtime's headers in front of what cuda_kernel prints.
    option = "cuda_kernel" if code.lstrip().startswith(("__global__", "//")) else "cuda_full"
    return (Dump(option, code, kernel.evidence), *kernel.dumps)


def chosen(kernel: Kernel, options: Sequence[str]) -> tuple[Dump, ...]:
    """Those of its dumps that were asked for, in that order."""
    have = texts(kernel)
    return tuple(dump for option in options for dump in have if dump.option == option)


def present(kernels: Iterable[Kernel]) -> list[str]:
    """The names of all dumps that some kernel has, also as figures."""
    found: dict[str, None] = {}
    for kernel in kernels:
        found.update((dump.option, None) for dump in texts(kernel))
        for option, names in FIGURES.items():
            if any(getattr(kernel, name) is not None for name in names):
                found[option] = None
    return list(found)


def ending(option: str) -> str:
    return ENDINGS.get(option, ".txt")


def lexer(option: str) -> str:
    """The name of the pygments lexer for a dump."""
    return "cpp" if option in _C_LIKE else LEXERS.get(ending(option), "text")
