"""The dumps in a raw log, found with plain patterns of their first and last
lines."""

from __future__ import annotations

import re

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")

ONCE_A_COMPILE = {
    "fusion_ir": rb"^%kernel \{\n.*?^\}$",
    "fusion_ir_math": rb"^Inputs:\n  T.*?^\}$",
    "kernel_ir": rb"^KERNEL .*?^END\.$",
    "ca_map": rb"^Compute at map \{.*?^\} compute at map$",
    "parallel_dimensions": rb"^Parallel dimension map:\n(?:\w+Idx\.[xyz]: [^\n]*\n){6}",
    "halo": rb"^HaloInfo:\n(?:TV[^\n]*\n)+",
    "sync_map": rb"^SyncMap:",
    "bank_conflict": rb"^===== No bank confliction =====$",
    "buffer_reuse_verbose": rb"^0  \S.*?(?=\n\n\n)",
}
"""Without the name of the kernel: the n-th is of the n-th kernel."""

NAMED = {
    "fusion_args": rb"^Arguments for fusion(\d+):$.*?^Launch Parameters: [^\n]*$",
    "kernel_args": rb"^Arguments for kernel(\d+):$.*?(?=^Arguments|^models/|\Z)",
    "ptxas_verbose": rb"^ptxas info    : \d+ bytes gmem$.*?CudaCodeGen7kernel(\d+)E.*?(?=\n\n)",
    "debug_info": rb"^PRINTING: __tmp_kernel(\d+)\.cu$",
    "perf_debug_verbose": rb"^Run kernel:$.*?^kernel(\d+) \d+ bytes/ \S+ ms \S+ GB/s$",
    "cuda_full": rb"^======= Codegen output for kernel: kernel(\d+) =======$(.*?)^={38}$",
}
"""With its number."""


def dumps(log: bytes, option: str) -> list[tuple[int, str]]:
    """(number of the kernel, text) of each dump in the log, in order."""
    log = _COLOUR.sub(b"", log)
    if option in ONCE_A_COMPILE:
        texts = re.findall(ONCE_A_COMPILE[option], log, flags=re.M | re.S)
        return [(n, text.strip(b"\n").decode()) for n, text in enumerate(texts, 1)]
    found = re.finditer(NAMED[option], log, flags=re.M | re.S)
    return [
        (
            int(f.group(1)),
            (f.group(2) if option == "cuda_full" else f.group())
            .strip(b"\n")
            .decode(),
        )
        for f in found
    ]
