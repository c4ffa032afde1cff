"""Provenance of kernels as torch tracks it (``INDUCTOR_PROVENANCE=1``): node
mappings 2.0 and stack traces.

It only supplements the generated code: it is empty for backward graphs that are
compiled on their own (2.11, 2.13), lacks mixed-order reductions, and can contain
kernels of another graph.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_FRAME = re.compile(r"File \"([^\"]{1,400})\", line (\d{1,9}), in")


@dataclass
class Provenance:
    """Torch's provenance of a graph's kernels."""

    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Handle of a call (``triton_poi_fused_add_0:2``) -> nodes of the graph after
    the post-grad passes."""
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Handle of a call -> ``file:line`` of the program."""
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Node after the post-grad passes -> nodes of the graph before them."""

    def take_mappings(self, text: str) -> None:
        """Read the record ``inductor_provenance_tracking_node_mappings``."""
        mappings = object_of(text)
        self.nodes.update(_lists(mappings.get("cppCodeToPost")))
        self.before.update(_lists(mappings.get("postToPre")))

    def take_stacks(self, text: str) -> None:
        """Read the record ``inductor_provenance_tracking_kernel_stack_traces``."""
        for handle, stacks in _lists(object_of(text)).items():
            frames = (_FRAME.findall(stack) for stack in stacks)
            lines = []
            for found in frames:
                if found:
                    lines.append(f"{found[-1][0]}:{found[-1][1]}")
            self.sources[handle] = tuple(dict.fromkeys(lines))


def object_of(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a text; {} for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _lists(value: object) -> dict[str, tuple[str, ...]]:
    """Return the entries of an object that are lists of strings."""
    if not isinstance(value, dict):
        return {}
    made = {}
    for name, entries in value.items():
        if isinstance(entries, list):
            made[name] = tuple(entry for entry in entries if isinstance(entry, str))
    return made
