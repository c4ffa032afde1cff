"""Files that Inductor writes for a graph: those of a ``torch_compile_debug`` folder
(TORCH_COMPILE_DEBUG=1; ``torch/_inductor/debug.py``), and generated modules of its
cache. Each file is read as one text."""

from __future__ import annotations

import re
from pathlib import Path

from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.fx_graph import graph_of
from fusiondoc.parsers.inductor.graph_parts import GraphParts, PartsOfProcess
from fusiondoc.parsers.inductor.text_lines import TextLines

_NUMBER = re.compile(r"\.(\d{1,9})$")
"""The number at the end of a graph's folder: ``model__0_forward_1.0``."""


class DebugFiles:
    """Graphs, by the files that show them: all files of one folder belong to one
    graph, except modules of a cache."""

    def __init__(self) -> None:
        self._graphs: dict[str, GraphParts] = {}

    def take(self, path: Path, text: str, log: int) -> None:
        """Read a file. ``log``: its number among the logs."""
        name = path.name.partition(".")[0]
        is_module = name not in _PARTS
        key = str(path if is_module else path.parent)
        parts = self._graphs.setdefault(key, GraphParts(None, line=(log, 1)))
        if name == "fx_graph_transformed":
            parts.graph = graph_of(text, TextLines(log, 1))
        elif name == "ir_post_fusion":
            parts.take_ir(text, TextLines(log, 1))
        elif name == "inductor_provenance_tracking_node_mappings":
            parts.provenance.take_mappings(text)
        else:
            parts.take_module(text, TextLines(log, 1))

    def process(self) -> PartsOfProcess | None:
        """Return all graphs in the order of their compilation; None if there are
        none."""
        if not self._graphs:
            return None
        process = PartsOfProcess()
        process.graphs = []
        for key in sorted(self._graphs, key=_order):
            process.graphs.append(self._graphs[key])
        return process


_PARTS = frozenset(
    (
        "output_code",
        "fx_graph_transformed",
        "ir_post_fusion",
        "inductor_provenance_tracking_node_mappings",
    )
)


def _order(key: str) -> tuple[str, int, str]:
    path = Path(key)
    found = _NUMBER.search(path.name)
    number = whole_number(found.group(1)) if found is not None else None
    return (str(path.parent), number if number is not None else -1, key)
