"""Which CUDA knows which GPU."""

from __future__ import annotations

import re
from typing import Tuple

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
