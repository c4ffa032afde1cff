"""Tables of GPUs: which CUDA knows which compute capability, and their memory bandwidth."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

Capability = Tuple[int, int]

FIRST_CUDA: dict[Capability, tuple[int, int]] = {
    (5, 0): (6, 0),
    (5, 2): (6, 5),
    (5, 3): (7, 0),
    (6, 0): (8, 0),
    (6, 1): (8, 0),
    (6, 2): (8, 0),
    (7, 0): (9, 0),
    (7, 2): (9, 1),
    (7, 5): (10, 0),
    (8, 0): (11, 0),
    (8, 6): (11, 1),
    (8, 7): (11, 4),
    (8, 8): (13, 0),
    (8, 9): (11, 8),
    (9, 0): (11, 8),
    (10, 0): (12, 8),
    (10, 1): (12, 8),
    (10, 3): (12, 9),
    (12, 0): (12, 8),
    (12, 1): (12, 9),
    (11, 0): (13, 0),
}
"""Compute capability -> the first CUDA toolkit that compiles for it: the PTX version that LLVM's NVPTX back
end asks for (llvm/lib/Target/NVPTX/NVPTX.td), and the CUDA release of that PTX version (PTX ISA, release
history; also cuda/bindings/utils/_ptx_utils.py of NVIDIA's cuda-python). 10.0 and 10.1 need PTX 8.6, whose
CUDA 12.7 was never released."""

LAST_CUDA: dict[int, tuple[int, int]] = {5: (12, 9), 6: (12, 9)}
"""Major capability -> the last toolkit that compiles for it: CUDA 13.0 took out Maxwell, Pascal and Volta
(7.0 and 7.2 end with 12.9 too) and starts at 7.5 (CUDA toolkit release notes, deprecated architectures)."""


def first_cuda(capability: Capability) -> tuple[int, int] | None:
    """The first CUDA for a GPU; for one that is not listed, of the nearest older one of its generation."""
    same = [one for one in FIRST_CUDA if one[0] == capability[0] and one <= capability]
    return FIRST_CUDA[max(same)] if same else None


def knows(cuda: tuple[int, int], capability: Capability) -> bool | None:
    """Whether that CUDA compiles for the GPU; None for a GPU that is not listed."""
    first = first_cuda(capability)
    if first is None:
        return None
    last = LAST_CUDA.get(capability[0]) or ((12, 9) if capability < (7, 5) else None)
    return first <= cuda and (last is None or cuda <= last)


def parse_pair(text: str | None) -> tuple[int, int] | None:
    """(11, 7) of "11.7", (9, 0) of "[9, 0]"; None if it holds no two numbers."""
    match = re.search(r"(\d+)\s*[.,]\s*(\d+)", text or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


class Bandwidth(NamedTuple):
    """``name``: a regular expression for the whole name, without "NVIDIA" and "Tesla" before it."""

    name: str
    gb_per_s: float
    source: str


_SHEETS = "data sheets linked in the repository gpu-datasheet"

TABLE = (
    Bandwidth(r"B200", 8000, "modal.com/gpu-glossary (memory bandwidth); the repository LLM-Prof"),
    Bandwidth(r"H200( NVL)?", 4800, _SHEETS + "; clock and bus width of the driver on a real one give 4814"),
    Bandwidth(r"H100 80GB HBM3", 3350, _SHEETS),
    Bandwidth(r"H100 PCIe", 2000, "the repository GPU-Resources; a public gist"),
    Bandwidth(r"A100-SXM4-40GB|A100-PCIE-40GB", 1555, "thundercompute.com (A100 specifications); " + _SHEETS),
    Bandwidth(r"A100-SXM4-80GB", 2039, "thundercompute.com (A100 specifications)"),
    Bandwidth(r"A100 80GB PCIe", 1935, "thundercompute.com (A100 specifications); " + _SHEETS),
    Bandwidth(r"A40", 696, _SHEETS),
    Bandwidth(r"A10|A10G", 600, _SHEETS + "; A10G: gpu-runtime-predictor on huggingface.co"),
    Bandwidth(r"L40S", 864, "grokipedia.com (L4 and L40S); the repository GPU-Resources"),
    Bandwidth(r"L4", 300, "grokipedia.com (L4 and L40S)"),
    Bandwidth(r"V100-\w+-(16|32)GB(-\w+)?", 900, "the repository GPU-Resources; Volta whitepaper notes"),
    Bandwidth(r"P100-(PCIE|SXM2)-16GB", 732, "the repository GPU-Resources"),
    Bandwidth(r"T4", 320, "kaffec.com (T4 and V100); gpu-runtime-predictor on huggingface.co"),
    Bandwidth(r"GeForce RTX 4090", 1008, "384 bits at 21 Gb/s: hardwaretimes.com; a public gist"),
    Bandwidth(r"GeForce RTX 3090", 936, "the repository nvidiaGPU"),
    Bandwidth(r"GeForce RTX 3080", 760, "320 bits at 19 Gb/s (the 10 GB card): tweaktown.com; alldbin.com"),
)

SLOWEST = min(row.gb_per_s for row in TABLE)


def bandwidth_of(gpu: str | None) -> float | None:
    """GB/s of a GPU of this name; None if it is not in the table. A part of a GPU (MIG) has no entry."""
    if not gpu:
        return None
    name = re.sub(r"^(NVIDIA )?(Tesla )?", "", gpu.strip())
    return next((row.gb_per_s for row in TABLE if re.fullmatch(row.name, name)), None)
