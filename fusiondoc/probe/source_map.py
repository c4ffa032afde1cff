"""Which line of the user's program an operator in the Python files of torch and other packages comes from,
and which modules its nodes belong to.

The log prints ``aten::layer_norm`` with the place in torch/nn/functional.py; the call that led there is
only in the graph before calls are inlined, which is walked here. So are the whole paths of modules:
``Node.getModuleHierarchy`` (torch/csrc/jit/ir/ir.cpp, 1.9 to 2.13) leaves out the names of module lists
("0(Block).norm(LayerNorm)"), and does for frozen graphs, which have no calls any more.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterator

_SOURCE = re.compile(r" # (.+:\d+:\d+)\s*$")
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
_ENTRY = re.compile(r"(\w+)\(([^()]*)\)")
"""Of what ``getModuleHierarchy`` says: the name in the module above, and the type."""
_SECONDS = 1.0
"""A bigger model than can be walked in this time keeps what was found until then."""


def source_map(torch: Any, scripted: Any, always: bool = False) -> dict[str, Any]:
    """What the record of this name holds.

    ``map``: ``op|file:line:column`` as printed -> ``file:line`` of the user's, for operators in packages'
    files that only one line of the user's leads to. ``layers``: the same key -> the module path of each such
    node of tensors, in the order of the inlined graph; "" for the model itself. Empty for a model without
    modules in it, unless ``always``.
    """
    walk = _Walk(torch)
    graph = getattr(scripted, "graph", None)
    if graph is not None:
        instance = scripted if isinstance(scripted, torch.jit.ScriptModule) else None
        walk.graph(graph, instance, "", None, ())
    return {
        "map": {key: lines.copy().pop() for key, lines in walk.found.items() if len(lines) == 1},
        "layers": walk.layers if walk.whole and (always or any(map(any, walk.layers.values()))) else {},
    }


class _Walk:
    def __init__(self, torch: Any) -> None:
        self.found: dict[str, set[str]] = {}
        self.layers: dict[str, list[str]] = {}
        self.whole = True
        """Every node was seen: else the order of ``layers`` tells nothing."""
        self._unit = torch.jit._state._python_cu
        self._torch_folder = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        self._until = time.perf_counter() + _SECONDS

    def graph(
        self,
        graph: Any,
        instance: Any,
        path: str,
        users_line: str | None,
        callers: tuple[str, ...],
    ) -> None:
        """Visit every node of ``graph``, the body of a method of ``instance`` (the module at ``path``) or of
        a function, which was called from ``users_line`` (None: the entry). ``callers`` keeps recursive
        functions from going on for ever."""
        modules: dict[str, tuple[Any, str]] = {}
        if instance is not None:
            modules[next(iter(graph.inputs())).debugName()] = (instance, path)
        for node in _nodes(graph):
            if time.perf_counter() > self._until:
                self.whole = False
                return
            kind = node.kind()
            if kind == "prim::GetAttr":
                owner, place = modules.get(node.input().debugName(), (None, ""))
                if owner is not None:
                    name = node.s("name")
                    at = "%s.%s" % (place, name) if place else name
                    modules[node.output().debugName()] = (getattr(owner, name, None), at)
            elif kind == "prim::CallFunction":
                name = next(iter(node.inputs())).type().annotation_str
                self._enter(name, self._unit.find_function(name), None, path, node, users_line, callers)
            elif kind == "prim::CallMethod":
                called, at = modules.get(next(iter(node.inputs())).debugName(), (None, path))
                method = getattr(called, node.s("name"), None)
                name = "%d.%s" % (id(called), node.s("name"))
                self._enter(name, method, called, at, node, users_line, callers)
            elif kind not in ("prim::Constant", "prim::Return"):
                self._note(node, kind, path, users_line)

    def _enter(
        self,
        name: str,
        callee: Any,
        instance: Any,
        path: str,
        node: Any,
        users_line: str | None,
        callers: tuple[str, ...],
    ) -> None:
        graph = getattr(callee, "graph", None)
        if graph is not None and name not in callers:
            self.graph(graph, instance, path, self._line(node) or users_line, (*callers, name))

    def _note(self, node: Any, kind: str, path: str, users_line: str | None) -> None:
        tensors = any(_holds_tensor(output.type()) for output in node.outputs())
        called = users_line is not None and kind.startswith("aten::")
        source = _source(node) if tensors or called else None
        if source is None:
            return
        key = "%s|%s" % (kind, source)
        if called and self._is_library(source):
            self.found.setdefault(key, set()).add(str(users_line))
        if tensors:
            self.layers.setdefault(key, []).append(_joined(path, _hierarchy(node)))

    def _line(self, node: Any) -> str | None:
        """``file:line`` of a call in the user's own files; None inside installed packages."""
        source = _source(node)
        if source is None or self._is_library(source):
            return None
        return source.rpartition(":")[0]

    def _is_library(self, source: str) -> bool:
        return source.startswith((self._torch_folder, "<")) or bool(_PACKAGES.search(source))


def _holds_tensor(type_: Any) -> bool:
    """Of a traced graph a tensor's type is written with its sizes: ``Float(8, 128)``."""
    return type_.kind() == "TensorType" or "Tensor" in type_.str()


def _source(node: Any) -> str | None:
    match = _SOURCE.search(str(node).split("\n", 1)[0])
    return match.group(1) if match else None


def _joined(path: str, inner: str) -> str:
    return "%s.%s" % (path, inner) if path and inner else path or inner


def _hierarchy(node: Any) -> str:
    """The modules that a node was inlined from, as far as its graph knows it; "" where it was not."""
    told = getattr(node, "getModuleHierarchy", None)
    names: list[str] = []
    for name, _ in _ENTRY.findall(told() if told is not None else ""):
        if name == "UNKNOWN_INSTANCE":
            break
        if name not in ("SELF", "TOP"):
            names.append(name)
    return ".".join(names)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            for nested in _nodes(inner):
                yield nested
