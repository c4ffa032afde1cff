"""Memory bandwidth of GPUs by the name that the driver gives them.

Figures are the vendor's (data sheets), in 10^9 bytes a second. The sheets themselves could not be opened
where this table was made: each figure was found where it is quoted, with the name of the page beside it,
and those that were found nowhere are left out (A30, RTX A6000, RTX 6000 Ada, L40, RTX 20 and 50, V100S,
GH200). A GPU that is not here has what its driver tells or ``fusiondoc env --measure`` finds.
"""

from __future__ import annotations

import re
from typing import NamedTuple


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
