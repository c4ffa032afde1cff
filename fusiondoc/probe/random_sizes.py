"""``--random-sizes``: the inputs of a target in other sizes for every step.

As in the dynamic part of the nvFuser tutorial: the first two sizes are changed by -2 to 2, twenty times, and
the last, which parameters share, never
(pytorch.org/tutorials/intermediate/nvfuser_intro_tutorial.html, "nvFuser & Dynamic Shapes").
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from .benchmark_steps import Given
from .failures import Refused
from .pass_inputs import Shape, tensors_in

SIZES = 20
APART = 2
"""A size changes by at most so much."""
PLACES = 2
"""So many sizes of an input change: the first ones."""


def random_sizes(torch: Any, shape: Shape, seed: int, count: int = SIZES) -> Given:
    """``count`` sets of inputs near those of ``shape``, in turns.

    What is equal changes alike: the first two sizes of the input with the most dimensions, and in other
    inputs of two or more dimensions the same size at the same place. Values are those of the given tensors,
    repeated where a size grows, so that indexes stay in range.

    Raises:
        Refused: no input has two dimensions.
    """
    arguments = shape()
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    most = max(tensors, key=lambda one: one.dim(), default=None)
    if most is None or most.dim() < 2:
        raise Refused(
            "inputs",
            "no input has two dimensions, so there is no size that can change: the last is shared with the "
            "parameters",
            "Leave --random-sizes out.",
        )
    changing = [(place, most.size(place)) for place in range(min(PLACES, most.dim() - 1))]
    draw = random.Random(seed)
    sets = []
    for _ in range(count):
        new = {one: max(1, one[1] + draw.randint(-APART, APART)) for one in changing}
        sets.append(tuple(_resized(torch, one, new) for one in arguments))
    return Given(itertools.cycle(sets).__next__, count, example=lambda: sets[0])


def _resized(torch: Any, value: Any, new: dict[tuple[int, int], int]) -> Any:
    if not isinstance(value, torch.Tensor):
        if tensors_in(torch, value):
            raise Refused("inputs", "--random-sizes changes tensors, and not lists or dicts of them")
        return value
    if value.dim() < 2:
        return value
    made = value.detach()
    for (place, size), wanted in new.items():
        if place < value.dim() - 1 and value.size(place) == size:
            index = torch.arange(wanted, device=value.device) % size
            made = made.index_select(place, index)
    if made is value or made.shape == value.shape:
        made = made.clone()
    return made.requires_grad_(value.requires_grad)
