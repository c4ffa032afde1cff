"""Which line of the user's program an operator in the Python files of torch and other packages comes from.

The log prints ``aten::layer_norm`` with the place in torch/nn/functional.py; the call that led there is
only in the graph before calls are inlined, which is walked here.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterator

_SOURCE = re.compile(r" # (.+:\d+:\d+)\s*$")
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
_SECONDS = 1.0
"""A bigger model than can be walked in this time keeps what was found until then."""


def source_map(torch: Any, scripted: Any) -> dict[str, str]:
    """``op|file:line:column`` as printed -> ``file:line`` of the user's, for operators in packages' files
    that only one line of the user's leads to."""
    walk = _Walk(torch)
    graph = getattr(scripted, "graph", None)
    if graph is not None:
        instance = scripted if isinstance(scripted, torch.jit.ScriptModule) else None
        walk.graph(graph, instance, None, ())
    return {key: lines.copy().pop() for key, lines in walk.found.items() if len(lines) == 1}


class _Walk:
    def __init__(self, torch: Any) -> None:
        self.found: dict[str, set[str]] = {}
        self._unit = torch.jit._state._python_cu
        self._torch_folder = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        self._until = time.perf_counter() + _SECONDS

    def graph(self, graph: Any, instance: Any, users_line: str | None, callers: tuple[str, ...]) -> None:
        """Visit every node of ``graph``, the body of a method of ``instance`` or of a function, which was
        called from ``users_line`` (None: the entry). ``callers`` keeps recursive functions from going on
        for ever."""
        modules: dict[str, Any] = {}
        if instance is not None:
            modules[next(iter(graph.inputs())).debugName()] = instance
        for node in _nodes(graph):
            if time.perf_counter() > self._until:
                return
            kind = node.kind()
            if kind == "prim::GetAttr":
                owner = modules.get(node.input().debugName())
                if owner is not None:
                    modules[node.output().debugName()] = getattr(owner, node.s("name"), None)
            elif kind == "prim::CallFunction":
                name = next(iter(node.inputs())).type().annotation_str
                self._enter(name, self._unit.find_function(name), None, node, users_line, callers)
            elif kind == "prim::CallMethod":
                called = modules.get(next(iter(node.inputs())).debugName())
                method = getattr(called, node.s("name"), None)
                name = "%d.%s" % (id(called), node.s("name"))
                self._enter(name, method, called, node, users_line, callers)
            elif users_line is not None and kind.startswith("aten::"):
                self._note(node, kind, users_line)

    def _enter(
        self,
        name: str,
        callee: Any,
        instance: Any,
        node: Any,
        users_line: str | None,
        callers: tuple[str, ...],
    ) -> None:
        graph = getattr(callee, "graph", None)
        if graph is not None and name not in callers:
            self.graph(graph, instance, self._line(node) or users_line, (*callers, name))

    def _note(self, node: Any, kind: str, users_line: str) -> None:
        source = _source(node)
        if source is not None and self._is_library(source):
            self.found.setdefault("%s|%s" % (kind, source), set()).add(users_line)

    def _line(self, node: Any) -> str | None:
        """``file:line`` of a call in the user's own files; None inside installed packages."""
        source = _source(node)
        if source is None or self._is_library(source):
            return None
        return source.rpartition(":")[0]

    def _is_library(self, source: str) -> bool:
        return source.startswith((self._torch_folder, "<")) or bool(_PACKAGES.search(source))


def _source(node: Any) -> str | None:
    match = _SOURCE.search(str(node).split("\n", 1)[0])
    return match.group(1) if match else None


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            for nested in _nodes(inner):
                yield nested
