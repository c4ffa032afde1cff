"""Complex multiplication, as in rotary embeddings.

    fusiondoc diagnose examples/why_not/complex_numbers.py

Nothing is fused: no fuser has kernels for complex numbers. NNC says nothing at all, nvFuser speaks
of a scalar type. Fix: keep real and imaginary part as two tensors.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return z * w + z


def fixed(
    real: torch.Tensor, imaginary: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    turned = real * cosine - imaginary * sine
    return turned + real, real * sine + imaginary * cosine + imaginary


inputs = (
    torch.randn(8, 16, device=device, dtype=torch.complex64),
    torch.randn(8, 16, device=device, dtype=torch.complex64),
)
FIX_OPTIONS = ("--input", "float32[8,16]") * 4

EXPECT = {
    "nnc": [("aten::mul", "FD223"), ("aten::add", "FD223")],
    "nvfuser": [("aten::mul", "FD202"), ("aten::add", "FD202")],
}
FUSED = (
    "aten::mul",
    "aten::mul",
    "aten::add",
    "aten::add",
    "aten::mul",
    "aten::mul",
    "aten::sub",
    "aten::add",
)
