"""Records of AOTAutograd: call sites that wrap functions, arguments that a call
changes or shares, and graphs with their nodes, types, bytes and the user's lines.

Lines of forward operators are taken from the Python stack while the function is
traced; those of backward operators from the traceback that autograd's anomaly mode
keeps of each gradient function. From torch 1.13 on AOTAutograd reads that itself
(``setup_stacktrace_preservation_hooks`` in aot_autograd.py of 1.13 to 2.1,
_functorch/_aot_autograd/logging_utils.py later) and gets the text from
``torch.fx.traceback.format_stack``; for functorch 0.2 it is done here.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import re
import sys
import sysconfig
import warnings
from typing import Any, Callable, Iterator, Sequence

from . import OWN_FOLDER, folder_of
from .pass_inputs import tensor_text

MOST_NODES = 5_000
"""Most nodes that are recorded of a graph."""

_KEY = "fusiondoc_source"
_FRAME = re.compile(r'File "(.+?)", line (\d+)')
_ASSIGNED = re.compile(r"^\s+(\w+)\b[^=(]*=(?!=)")
"""A line of an FX graph's code: the name in front of the first ``=``
(torch/fx/graph.py, ``emit_node``)."""


class Sources:
    """Notes at each node of a graph the user's line that made it, during
    ``tracing``."""

    def __init__(self, torch: Any, put: Callable[[Any, str, Any], None]) -> None:
        """``put`` replaces an attribute of a module or class."""
        self._torch = torch
        self._put = put
        paths = sysconfig.get_paths()
        standard = set()
        for name in ("stdlib", "platstdlib"):
            standard.add(os.path.abspath(paths[name]))
        packages = [os.path.join(folder, "site-packages") for folder in standard]
        self._packages = tuple(folder + os.sep for folder in packages)
        self._standard = tuple(folder + os.sep for folder in standard)
        self._libraries = [folder_of(torch)]
        self._depth = 0
        self._pending: list[Any] = []
        self._replace_create_node()
        self._replace_format_stack()

    def add_library(self, module: Any) -> None:
        """Count this module's package as library code: its lines are never the
        user's."""
        file = getattr(
            sys.modules.get(module.__name__.partition(".")[0]), "__file__", None
        )
        if file:
            folder = os.path.dirname(os.path.abspath(file)) + os.sep
            if folder not in self._libraries:
                self._libraries.append(folder)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Context manager: note the user's line at each node that is made."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def here(self) -> str | None:
        """``file:line`` of the innermost frame outside libraries; None if a frame
        of the probe, called by a library, comes first."""
        frame: Any = sys._getframe(1)
        passed = False
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(OWN_FOLDER):
                if passed:
                    return None
            elif self._is_users(file):
                return "%s:%d" % (file, frame.f_lineno)
            else:
                passed = True
            frame = frame.f_back
        return None

    def caller(self) -> tuple[str | None, str]:
        """The user's ``file:line`` that called into torch, and the function of
        torch that it called."""
        frame: Any = sys._getframe(1)
        name = ""
        while frame is not None:
            file = frame.f_code.co_filename
            if self._is_users(file):
                return "%s:%d" % (file, frame.f_lineno), name
            if not file.startswith(OWN_FOLDER):
                name = frame.f_code.co_name
            frame = frame.f_back
        return None, name

    def of_text(self, text: str) -> str | None:
        """``file:line`` of the last user's frame in a printed stack."""
        found = []
        for file, line in _FRAME.findall(text):
            if self._is_users(file):
                found.append((file, line))
        if found:
            return "%s:%s" % found[-1]
        return None

    def of_node(self, node: Any) -> str | None:
        """The user's line that a node comes from, if known."""
        noted = node.meta.get(_KEY)
        if noted:
            return str(noted)
        try:
            trace = node.stack_trace
        except AttributeError:
            trace = None
        if isinstance(trace, str):
            return self.of_text(trace)
        return None

    def of_lines(self, module: Any, lines: dict[str, int]) -> dict[str, str]:
        """Line of a graph's code -> the user's line."""
        found = {}
        for node in module.graph.nodes:
            line, users_line = lines.get(node.name), self.of_node(node)
            if line is not None and users_line is not None:
                found[str(line)] = users_line
        return found

    def _is_users(self, file: str) -> bool:
        own = file.startswith(("<", OWN_FOLDER))
        if own or file.startswith(tuple(self._libraries)):
            return False
        return file.startswith(self._packages) or not file.startswith(
            self._standard
        )

    def _replace_create_node(self) -> None:
        graph = self._torch.fx.Graph
        original = graph.create_node
        sources = self

        def create_node(self: Any, op: str, *args: Any, **kwargs: Any) -> Any:
            node = original(self, op, *args, **kwargs)
            if sources._depth and op == "call_function":
                with contextlib.suppress(Exception):
                    line = sources.here()
                    if line is not None:
                        node.meta.setdefault(_KEY, line)
                    else:
                        sources._pending.append(node)
            return node

        self._put(graph, "create_node", create_node)

    def _replace_format_stack(self) -> None:
        """Replace ``format_stack`` (torch/fx/traceback.py): AOTAutograd of 2.0 and
        later gives each gradient function an empty stack, unless the graph has one
        from torch.compile."""
        home: Any = getattr(self._torch.fx, "traceback", None)
        original = getattr(home, "format_stack", None)
        if original is None:
            return

        def format_stack() -> Any:
            stack = original()
            if self._depth and not any(map(self.of_text, stack)):
                line = self.here()
                if line is not None:
                    file, _, number = line.rpartition(":")
                    return ['  File "%s", line %s, in fn\n' % (file, number)]
            return stack

        self._put(home, "format_stack", format_stack)

    def through_gradients(self, function: Any) -> Any:
        """For functorch 0.2, which keeps no stack traces: wrap ``function`` so that
        the nodes made by each gradient function are noted with its user's line."""
        torch = self._torch

        def noted(*args: Any) -> Any:
            before = torch.is_anomaly_enabled()
            torch.set_anomaly_enabled(True)
            try:
                results = function(*args)
            finally:
                torch.set_anomaly_enabled(before)
            with contextlib.suppress(Exception):
                self._follow(results)
            return results

        return noted

    def _follow(self, results: Any) -> None:
        flat = results if isinstance(results, (list, tuple)) else [results]
        ahead = []
        for result in flat:
            if getattr(result, "grad_fn", None) is not None:
                ahead.append(result.grad_fn)
        seen: set[Any] = set()
        while ahead:
            function = ahead.pop()
            if function is None or function in seen:
                continue
            seen.add(function)
            ahead.extend(following for following, _ in function.next_functions)
            line = self.of_text("".join(function.metadata.get("traceback_", ())))
            function.register_hook(lambda *_, line=line: self._settle(line))
        self._pending.clear()

    def _settle(self, line: str | None) -> None:
        """Attribute the nodes made since the last call to the gradient function
        that has just run."""
        for node in self._pending:
            if line is not None:
                node.meta.setdefault(_KEY, line)
        self._pending.clear()


def graph_record(torch: Any, graph: Any, sources: Sources) -> dict[str, Any]:
    """Return the nodes of an FX graph, in order. ``inputs`` are names, "" for a
    value that is no node; the inputs of the output node are the graph's results in
    order."""
    nodes: list[dict[str, Any]] = []
    total = 0
    for node in graph.nodes:
        total += 1
        if len(nodes) >= MOST_NODES and node.op != "output":
            continue
        kind, size = _type_of(torch, node)
        nodes.append(
            {
                "name": str(node.name),
                "kind": node.op,
                "op": _op_of(node),
                "type": kind,
                "bytes": size,
                "at": sources.of_node(node),
                "inputs": [
                    getattr(value, "name", "") for value in _flat(torch, node)
                ],
                "sizes": _sizes(node),
            }
        )
    return {"nodes": nodes, "total": total}


def default_saved(
    torch: Any, joint: Any, inputs: Any, outputs: int
) -> list[str] | None:
    """Names of the nodes that torch's ``default_partition`` of a copy of the joint
    graph saves for backward; None where it fails.

    Which nodes count as forward depends on the version: those that the results need
    up to at least 2.1, all up to the last of these in 2.13
    (torch/_functorch/partitioners.py).
    """
    home = next((name for name in _PARTITIONERS if name in sys.modules), None)
    default = getattr(sys.modules.get(home or ""), "default_partition", None)
    if default is None:
        return None
    try:
        graph = torch.fx.GraphModule(joint, copy.deepcopy(joint.graph))
        options = {}
        if "num_fwd_outputs" in inspect.signature(default).parameters:
            options["num_fwd_outputs"] = outputs
        else:
            graph._out_spec = joint._out_spec
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forward = default(graph, inputs, **options)[0]
    except Exception:
        return None
    results = next(node for node in forward.graph.nodes if node.op == "output")
    names = []
    for node in _flat(torch, results)[outputs:]:
        if isinstance(node, torch.fx.Node):
            names.append(node.name)
    return names


_PARTITIONERS = ("torch._functorch.partitioners", "functorch._src.partitioners")


def _op_of(node: Any) -> str | None:
    """``aten::add``, or the name of the called function; None for inputs and
    outputs."""
    if node.op in ("placeholder", "output"):
        return None
    target = node.target
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return str(schema.name)
    packet = getattr(target, "_qualified_op_name", None)
    return str(packet or getattr(target, "__name__", target))


def _flat(torch: Any, node: Any) -> list[Any]:
    """The arguments that are nodes, flattened, in order; for the output node all
    arguments."""
    found: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            for inner in value:
                walk(inner)
        elif isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif node.op == "output" or isinstance(value, torch.fx.Node):
            found.append(value)

    walk(node.args)
    walk(node.kwargs)
    return found


def _sizes(node: Any) -> list[int]:
    """Integers above 1 in lists among the arguments: sizes that are fixed in the
    graph."""
    found: list[int] = []
    if node.op == "call_function":
        for value in node.args:
            if isinstance(value, (list, tuple)):
                found.extend(
                    size for size in value if type(size) is int and size > 1
                )
    return found[:16]


def _type_of(torch: Any, node: Any) -> tuple[str | None, int | None]:
    """Return ``float32[8,128]`` and its bytes; None unless the value is a single
    tensor of known size."""
    value = node.meta.get("val")
    if value is None:
        value = node.meta.get("tensor_meta")
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return None, None
    text = "%s[%s]" % (
        str(dtype).replace("torch.", ""),
        ",".join(str(size) for size in shape),
    )
    number = int(torch.empty((), dtype=dtype).element_size())
    for size in shape:
        # int() of a symbolic size would fix it for the user's program.
        known = (
            size
            if isinstance(size, int)
            else getattr(getattr(size, "node", None), "hint", None)
        )
        if not isinstance(known, int):
            return text, None
        number *= known
    return text, number


def _value_text(torch: Any, value: Any) -> str:
    """An argument of a call: the type of a tensor, the value of a number or string,
    else the class."""
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    return type(value).__name__


def lines_of(module: Any) -> tuple[str | None, dict[str, int]]:
    """The name of a graph module's code, as TorchScript prints it, and the line of
    each node in it."""
    code = getattr(type(module).forward, "__code__", None)
    if code is None:
        return None, {}
    text = _source_lines(code.co_filename)
    found: dict[str, int] = {}
    for number, line in enumerate(text, 1):
        match = _ASSIGNED.match(line)
        if match:
            found.setdefault(match.group(1), number)
    return str(code.co_filename), found


def _source_lines(name: str) -> Sequence[str]:
    import linecache

    return linecache.getlines(name)


_MOST_NOTED = 64
"""Most shapes, changed arguments and shared arguments that are recorded for a call
site, each."""

WRAPPED = "_fusiondoc_aot"
"""Attribute that marks the functions returned by ``aot_function``."""


class Site:
    """A call site of the program that wraps a function, with counts of wrappings,
    calls and compilations."""

    def __init__(self, number: int, name: str, how: str, at: str | None) -> None:
        self.number = number
        self.name = name
        self.how = how
        self.at = at
        self.wraps = 0
        self.calls: int | None = None
        self.compiles = 0
        self.scripted = 0
        self.failures = 0
        self.shapes: list[str] = []
        self.changed: list[str] = []
        self.shared: list[str] = []
        self.written: set[str] = set()
        """Phases of the current compilation whose graphs are recorded."""
        self.forward_waits = False
        """Whether its graphs were partitioned and the forward graph is not compiled
        yet."""
        self.is_written = False
        """Whether its record ``aot_site`` is written."""

    def forget(self) -> None:
        """In a fork: reset all counts."""
        self.is_written = self.forward_waits = False
        self.wraps = self.compiles = self.scripted = self.failures = 0
        self.calls = None if self.calls is None else 0
        self.shapes, self.changed, self.shared, self.written = [], [], [], set()

    @property
    def is_used(self) -> bool:
        """Whether its function was wrapped, called or compiled."""
        return bool(self.wraps or self.calls or self.compiles)

    def used(self) -> dict[str, Any]:
        """The fields of its record ``aot_used``."""
        names = (
            "wraps",
            "calls",
            "compiles",
            "failures",
            "shapes",
            "changed",
            "shared",
        )
        return dict({name: getattr(self, name) for name in names}, site=self.number)

    def begin(self, partitioned: bool) -> None:
        """Begin the next compilation."""
        self.compiles += 1
        self.written = set()
        self.forward_waits = partitioned

    def note_shapes(self, torch: Any, args: Sequence[Any]) -> bool:
        """Note the types and sizes of a call; return whether they are new."""
        if len(self.shapes) >= _MOST_NOTED:
            return False
        shown = [
            value for value in args if not isinstance(value, dict)
        ]  # parameters of aot_module
        text = ", ".join(_value_text(torch, value) for value in shown)
        if text in self.shapes:
            return False
        self.shapes.append(text)
        return True

    def note_memory(self, changed: Sequence[str], shared: Sequence[str]) -> None:
        """Note the arguments that a call changed in place, and those that share
        memory."""
        for found, more in ((self.changed, changed), (self.shared, shared)):
            found.extend(text for text in more if text not in found)
            del found[_MOST_NOTED:]


def versions(torch: Any, args: Sequence[Any]) -> list[int | None]:
    """The version counter of each tensor, which every change in place increments;
    None for other values."""
    found: list[int | None] = []
    for value in args:
        try:
            if isinstance(value, torch.Tensor):
                found.append(int(value._version))
            else:
                found.append(None)
        except RuntimeError:  # a tensor of inference mode has none
            found.append(None)
    return found


def changed_since(
    torch: Any, args: Sequence[Any], before: Sequence[int | None]
) -> list[str]:
    """The arguments whose version has changed since, such as "argument 1"."""
    pairs = enumerate(zip(before, versions(torch, args)), 1)
    return ["argument %d" % number for number, (old, new) in pairs if old != new]


def sharing(torch: Any, args: Sequence[Any], result: Any) -> list[str]:
    """Arguments that share memory, and results that share it with them."""
    held = []
    for n, value in enumerate(args, 1):
        if isinstance(value, torch.Tensor):
            held.append((n, _storage(value)))
    found = []
    for index, (number, storage) in enumerate(held):
        for other, same in held[:index]:
            if storage and storage == same:
                found.append("arguments %d and %d" % (other, number))
    results = result if isinstance(result, (list, tuple)) else [result]
    for position, value in enumerate(results, 1):
        if not isinstance(value, torch.Tensor):
            continue
        for number, storage in held:
            if storage and storage == _storage(value):
                found.append("result %d and argument %d" % (position, number))
    return found


def _storage(tensor: Any) -> int:
    """Address of a tensor's memory; 0 for none."""
    held = getattr(tensor, "untyped_storage", None)
    return int(
        held().data_ptr() if held is not None else tensor.storage().data_ptr()
    )


def name_of(function: Any) -> str:
    """The name of a function, of the function of a ``functools.partial``, or of a
    callable object's class."""
    inner = getattr(function, "func", function)  # functools.partial
    return str(
        getattr(inner, "__qualname__", None)
        or getattr(inner, "__name__", type(inner).__name__)
    )


def graph_breaks() -> tuple[int, dict[str, int]]:
    """The counters of torch.compile (torch/_dynamo/utils.py, 2.0 to 2.13): the
    number of graphs, and reason of a graph break -> its number."""
    counters: Any = getattr(
        sys.modules.get("torch._dynamo.utils"), "counters", None
    )
    try:
        reasons = {}
        for why, n in counters["graph_break"].items():
            reasons[str(why).split("\n")[0][:300]] = int(n)
        return int(counters["stats"].get("unique_graphs", 0)), reasons
    except Exception:  # none, or of another kind
        return 0, {}


def marking(original: Any) -> Any:
    """Wrap ``aot_function`` so that its results are marked with the attribute
    ``WRAPPED``."""

    @functools.wraps(original)
    def aot_function(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        vars(made)[WRAPPED] = "AOTAutograd"
        return made

    return aot_function
