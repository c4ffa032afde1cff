"""Whether a reshape is a view: as torch itself decides it."""

from __future__ import annotations

import random

import pytest

from fusiondoc.diagnosis.reasons_of_node import can_view
from fusiondoc.parsers.ir.types import TensorType, parse_type

torch = pytest.importorskip("torch")


@pytest.mark.torch
def test_torch_views_where_it_is_said() -> None:
    drawn = random.Random(1)
    seen = {True: 0, False: 0}
    for _ in range(800):
        sizes = [drawn.choice([1, 2, 3, 4, 6]) for _ in range(drawn.randint(1, 4))]
        tensor = torch.empty(sizes).permute(
            drawn.sample(range(len(sizes)), len(sizes))
        )
        if drawn.random() < 0.3 and tensor.shape[-1] > 1:
            tensor = tensor[..., ::2]
        left, wanted = tensor.numel(), []
        while left > 1:
            wanted.append(
                drawn.choice([n for n in range(2, left + 1) if left % n == 0])
            )
            left //= wanted[-1]
        try:
            tensor.view(wanted)
            is_view = True
        except RuntimeError:
            is_view = False
        sizes_text = ", ".join(map(str, tensor.shape))
        kind = parse_type(
            f"Float({sizes_text}, strides={list(tensor.stride())}, device=cpu)"
        )
        assert isinstance(kind, TensorType)
        assert can_view(kind, tuple(wanted)) is is_view, (
            tensor.shape,
            tensor.stride(),
            wanted,
        )
        seen[is_view] += 1
    assert min(seen.values()) > 50
