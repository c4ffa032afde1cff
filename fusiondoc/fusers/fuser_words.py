"""The words of sentences on a fuser: why it refuses an operator, an overload, an
argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GivenOverload = Literal[
    "all_dimensions",
    "all_elements",
    "with_indices",
    "without_dim",
    "correction",
    "rounding_mode",
    "decimals",
    "number",
    "number_first",
    "chosen_number",
    "tensor_limits",
    "device",
    "dtype_of_tensor",
    "layout_or_device",
    "other_arguments",
    "not_two_tensors",
    "other_types",
]
"""``all_elements``: of ``max`` and ``min``; ``number``: where a tensor is needed;
``number_first``: before the tensor; ``chosen_number``: of ``where``;
``tensor_limits``: of ``clamp``; ``device`` to ``other_arguments``: of ``to``;
``other_types``: of the types in ``Overload.types``."""


@dataclass(frozen=True)
class FuserWords:
    """A sentence for each condition that a fuser states or that its rules
    contain."""

    conditions: Mapping[str, str] = field(default_factory=dict)
    """Condition that does not hold -> the reason in a sentence. ``{op}`` and
    ``{text}`` are fields of ``Stated`` (model/reasons/stated.py)."""
    overloads: Mapping[GivenOverload, str] = field(default_factory=dict)
    """An overload that it refuses -> the sentence, which names the overload that it
    takes; ``{op}`` is a field of ``Overload``."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """``Argument.problem`` -> the sentence; ``{argument}`` and ``{dtype}`` are
    fields of ``Argument``."""
    left_out: str | None = None
    """The sentence for an operator that it could take and did not, if its log gives
    no reason."""
