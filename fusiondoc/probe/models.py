"""Turn the user's model into TorchScript, and find the user's line and module of
each operator.

The log prints ``aten::layer_norm`` with its line in torch/nn/functional.py; the
user's call of layer_norm is only in the graph before calls are inlined, which is
walked here. That graph also has the full paths of modules:
``Node.getModuleHierarchy`` (torch/csrc/jit/ir/ir.cpp, 1.9 to 2.13) leaves out the
names of module lists ("0(Block).norm(LayerNorm)"), and does for frozen graphs,
which have no calls any more.
"""

from __future__ import annotations

import inspect
import re
import sys
import time
from typing import Any, Callable, Iterator

from . import Refused, UserError, first_line, folder_of
from .fusers import COMPILER, needs_frozen
from .pass_inputs import by_position, named_of
from .replaced import Replaced

_MAKES_HINT = "If it makes the model, put model = %s() into a file and name that; or change the line above."

TRACE_HINT = "Change that line, or record the operators with --trace instead (control flow is then frozen)."


def to_torchscript(
    torch: Any,
    model: Any,
    example: Any,
    trace: bool,
    note: Callable[[str], None] = lambda text: None,
) -> Any:
    """Return the scripted (or traced) model; scripted ones are returned unchanged.
    Args: example: returns the arguments to trace with; called only for tracing.
    trace: ``torch.jit.trace`` instead of ``torch.jit.script``. note: called
    with a sentence about each step that the user did not request.
    """
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return model
    if trace:
        return _trace(torch, model, example(), note)
    return _script(torch, model)


def as_given(torch: Any, model: Any) -> dict[str, Any]:
    """The record of the model before it is changed."""
    return {
        "training": getattr(model, "training", None)
        if isinstance(model, torch.nn.Module)
        else None,
        "scripted": isinstance(
            model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)
        ),
    }


def prepared(torch: Any, model: Any, spec: dict[str, Any]) -> Any:
    """Return the model, in eval mode and with its modules out of place if the
    request demands it."""
    if not isinstance(model, torch.nn.Module):
        return model
    if spec.get("in_place_off"):
        for module in model.modules():
            if getattr(module, "inplace", False):
                module.inplace = False
    if spec.get("eval"):
        return model.eval()
    return model


def frozen(torch: Any, scripted: Any) -> Any:
    """Return the frozen module; unchanged if it cannot be frozen: a function, a
    module in training mode, or one that is frozen already (freezing takes the
    attribute ``training`` away, torch/csrc/jit/passes/freeze_module.cpp).

    Raises:
        UserError: torch cannot freeze it.
    """
    if not isinstance(scripted, torch.jit.ScriptModule) or getattr(
        scripted, "training", True
    ):
        return scripted
    try:
        return torch.jit.freeze(scripted)
    except RuntimeError as error:
        raise UserError("script", "Or leave it as it is: --no-freeze") from error


def is_frozen(torch: Any, scripted: Any) -> bool:
    """True for a module whose weights are constants of its graph."""
    return isinstance(scripted, torch.jit.ScriptModule) and not hasattr(
        scripted, "training"
    )


def frozen_for_run(
    torch: Any,
    spec: dict[str, Any],
    scripted: Any,
    fuser: str,
    note: Callable[[str], None],
) -> Any:
    """The model, frozen if ``--freeze`` requests it. For a fuser that sees weights
    only in frozen modules it is frozen unless ``--no-freeze`` forbids it."""
    requested = bool(spec.get("freeze"))
    wanted = requested or (
        needs_frozen(fuser) and not spec["backward"] and not spec.get("no_freeze")
    )
    made = frozen(torch, scripted) if wanted else scripted
    if requested and not is_frozen(torch, made):
        training = isinstance(scripted, torch.jit.ScriptModule)
        if training:
            why = "it is in training mode (call eval() on it)"
        else:
            why = "only a module can be"
        note("--freeze: the target is not frozen: " + why)
    return made


_COMPILED = (
    "the target is compiled with torch.compile, whose code no TorchScript fuser sees: what it wraps is run "
    "under TorchScript here; for torch.compile itself: --fuser %s" % COMPILER
)


def not_compiled(model: Any, note: Callable[[str], None]) -> Any:
    """Return the model that ``torch.compile`` wraps (torch/_dynamo/eval_frame.py):
    scripting a compiled module fails at the wrapper's own code."""
    if getattr(model, "_compiled_call_impl", None) is not None and not hasattr(
        model, "_orig_mod"
    ):
        note(_COMPILED)  # compiled in place, by its method compile()
        return model
    if (
        type(model).__name__ == "OptimizedModule"
    ):  # it has the other attribute too, of its forward
        inner = getattr(model, "_orig_mod", None)
    else:
        inner = getattr(model, "_torchdynamo_orig_callable", None)
    if inner is None:
        return model
    note(_COMPILED)
    # For a callable that is no Python function, such as a scripted one, torch makes
    # a function first (``wrap_inline`` of torch/_dynamo/external_utils.py).
    file = getattr(getattr(inner, "__code__", None), "co_filename", "")
    if file.replace("\\", "/").endswith("/_dynamo/external_utils.py"):
        inner = getattr(inner, "__wrapped__", inner)
    if getattr(inner, "__name__", None) == "forward" and hasattr(inner, "__self__"):
        inner = inner.__self__  # torch.compile(model.forward)
    return inner


def _script(torch: Any, model: Any) -> Any:
    replaced = Replaced()
    _name_files_of_decorated(torch, replaced)
    _take_no_data_for_a_builtin(replaced)
    try:
        return torch.jit.script(model)
    except Exception as error:
        # NotSupportedError, FrontendError, RuntimeError, OSError (no source):
        # equivalent for the user.
        raise UserError("script", _script_hint(model)) from error
    finally:
        replaced.take_back()


def _name_files_of_decorated(torch: Any, replaced: Replaced) -> None:
    """Name the right file for a function under ``@torch.no_grad()``: torch compiles
    the lines of the function itself, and names the file of the decorator:
    ``inspect.getsourcelines`` unwraps, ``getsourcefile`` does not
    (torch/_sources.py, 1.12 to 2.13)."""
    sources = getattr(torch, "_sources", None)
    original = getattr(sources, "get_source_lines_and_file", None)
    if original is None:
        return

    def of_function_itself(obj: Any, *args: Any, **options: Any) -> Any:
        return original(inspect.unwrap(obj), *args, **options)

    replaced.put(sources, "get_source_lines_and_file", of_function_itself)


def _take_no_data_for_a_builtin(replaced: Replaced) -> None:
    """Let only callables be builtin functions: torch knows these by ``id()``
    (torch/jit/_builtins.py, 1.12 to 2.13), and an attribute that got the ``id()`` of
    a function that is gone fails as "builtin cannot be used as a value"."""
    for name in ("torch.jit._builtins", "torch.jit._recursive"):
        module = sys.modules.get(name)
        find = getattr(module, "_find_builtin", None)
        if find is not None:
            replaced.put(module, "_find_builtin", _of_callables(find))


def _of_callables(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: find(value) if callable(value) else None


def _script_hint(model: Any) -> str:
    """Advice for a function without arguments that cannot be scripted: most likely
    it builds the model."""
    code = getattr(model, "__code__", None)
    if code is not None and not code.co_argcount and code.co_name.isidentifier():
        return _MAKES_HINT % str(code.co_name)
    return TRACE_HINT


_TRACE_ADVICE = "Tracing takes tensors only; wrap plain numbers in the function."
_RESULT_ADVICE = (
    "The model takes or returns %s. Tracing knows tensors, and tuples, lists and dictionaries of them: name "
    "a function that calls the model and returns these, such as its fields as a tuple."
)
_OBJECT = "instead got value of type "
"""torch names the class after this text (``tryToInferContainerType`` of
torch/csrc/jit/python/pybind_utils.h)."""
_OUTPUT = "can be output from traced functions"
"""In the error for a class that TorchScript has a type for
(torch/csrc/jit/python/python_tracer.cpp)."""

_STRICT = "strict=False"
"""The error names this option when the model returns a dictionary
(torch/csrc/jit/python/python_arg_flatten.cpp,
torch/csrc/jit/frontend/tracer.cpp)."""


def _trace(
    torch: Any, model: Any, example: tuple[Any, ...], note: Callable[[str], None]
) -> Any:
    named = named_of(example)
    given: dict[str, Any] = {"example_inputs": example}
    if named and len(example) == 0 and _traces_by_name(torch):
        given = {"example_kwarg_inputs": named}
    elif named:
        given = {"example_inputs": by_position(model, example)}
    try:
        # The check would run the model and a second graph through the executor:
        # noise in the log.
        return torch.jit.trace(model, check_trace=False, **given)
    except Exception as error:
        if _STRICT not in str(error):
            raise UserError("trace", _trace_advice(error)) from error
    note(
        "traced with strict=False, because the model returns or holds a dictionary or list: its keys and "
        "length are then those of this run"
    )
    try:
        return torch.jit.trace(model, check_trace=False, strict=False, **given)
    except Exception as error:
        raise UserError("trace", _trace_advice(error)) from error


def _trace_advice(error: Exception) -> str:
    _, found, kind = str(error).partition(_OBJECT)
    if found:
        return _RESULT_ADVICE % (
            "an object of class " + kind.split("\n")[0].rstrip(". ")
        )
    if _OUTPUT in str(error):
        return _RESULT_ADVICE % "an object"
    return _TRACE_ADVICE


def _traces_by_name(torch: Any) -> bool:
    """True if torch.jit.trace has ``example_kwarg_inputs`` (from 2.0 on,
    torch/jit/_trace.py)."""
    return "example_kwarg_inputs" in inspect.signature(torch.jit.trace).parameters


def move(torch: Any, model: Any, device: Any) -> Any:
    """Move a module to ``device``; a function's tensors are its arguments, so it is
    unchanged."""
    if device is not None and isinstance(model, torch.nn.Module):
        return model.to(device)
    return model


def home(torch: Any, model: Any) -> Any:
    """The device for inputs of ``--input``: that of the first parameter, else a
    GPU, else the CPU."""
    if isinstance(model, torch.nn.Module):
        for parameter in list(model.parameters()) + list(model.buffers()):
            return parameter.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def signature(model: Any) -> str | None:
    """The declaration of a scripted model, such as ``forward(Tensor x) -> Tensor``;
    None if it has none."""
    schema = getattr(getattr(model, "forward", model), "schema", None)
    if schema is None:
        return None
    arguments = []
    for argument in schema.arguments:
        if argument.name != "self":
            arguments.append("%s %s" % (argument.type, argument.name))
    return "%s(%s)" % (schema.name, ", ".join(arguments))


def device_of(torch: Any, name: str | None) -> Any:
    """``torch.device`` of ``--device``; Refused (status 4) for a GPU that this
    torch does not see."""
    if name is None:
        return None
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Refused(
            "device", "no device '%s': %s" % (name, first_line(error))
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Refused(
            "device",
            "torch %s sees no CUDA device here" % torch.__version__,
            "Use --device cpu, or a machine with a GPU and a CUDA build of torch.",
            4,
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise Refused(
            "device",
            "there is no %s: torch sees %d" % (device, torch.cuda.device_count()),
            None,
            4,
        )
    return device


_SOURCE = re.compile(r" # (.+:\d+:\d+)\s*$")
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
_ENTRY = re.compile(r"(\w+)\(([^()]*)\)")
"""An entry of ``getModuleHierarchy``: the name in the module above, and the
type."""
_SECONDS = 1.0
"""Time limit of the walk: for a larger model the results found so far are kept."""


def source_map(torch: Any, scripted: Any, always: bool = False) -> dict[str, Any]:
    """The fields of the record ``source_map``.

    ``map``: ``op|file:line:column`` as printed -> ``file:line`` of the user's, for
    operators in packages' files that only one line of the user's leads to.
    ``callers``: the same key -> all lines of the user's that lead there, where they
    are several. ``layers``: the same key -> the module path of each such node of
    tensors, in the order of the inlined graph; "" for the model itself. Empty for a
    model without modules in it, unless ``always``.
    """
    walk = _Walk(torch)
    graph = getattr(scripted, "graph", None)
    if graph is not None:
        instance = None
        if isinstance(scripted, torch.jit.ScriptModule):
            instance = scripted
        walk.graph(graph, instance, "", None, ())
    return {
        "map": {
            key: next(iter(lines))
            for key, lines in walk.found.items()
            if len(lines) == 1
        },
        "callers": {
            key: list(lines) for key, lines in walk.found.items() if len(lines) > 1
        },
        "layers": walk.layers
        if walk.whole and (always or any(map(any, walk.layers.values())))
        else {},
    }


class _Walk:
    def __init__(self, torch: Any) -> None:
        self.found: dict[str, dict[str, None]] = {}
        """``op|file:line:column`` -> the user's lines that lead there, in the order
        of the graph."""
        self.layers: dict[str, list[str]] = {}
        self.whole = True
        """Whether every node was visited. If not, the order of ``layers`` means
        nothing."""
        self._unit = torch.jit._state._python_cu
        self._torch_folder = folder_of(torch)
        self._until = time.perf_counter() + _SECONDS

    def graph(
        self,
        graph: Any,
        instance: Any,
        path: str,
        users_line: str | None,
        callers: tuple[str, ...],
    ) -> None:
        """Visit every node of ``graph``, the body of a method of ``instance`` (the
        module at ``path``) or of a function, which was called from ``users_line``
        (None: the entry). ``callers`` keeps recursive functions from going on for
        ever."""
        modules: dict[str, tuple[Any, str]] = {}
        if instance is not None:
            modules[next(iter(graph.inputs())).debugName()] = (instance, path)
        for node in _nodes(graph):
            if time.perf_counter() > self._until:
                self.whole = False
                return
            kind = node.kind()
            if kind == "prim::GetAttr":
                owner, owner_path = modules.get(
                    node.input().debugName(), (None, "")
                )
                if owner is not None:
                    name = node.s("name")
                    at = "%s.%s" % (owner_path, name) if owner_path else name
                    modules[node.output().debugName()] = (
                        getattr(owner, name, None),
                        at,
                    )
            elif kind == "prim::CallFunction":
                name = next(iter(node.inputs())).type().annotation_str
                self._enter(
                    name,
                    self._unit.find_function(name),
                    None,
                    path,
                    node,
                    users_line,
                    callers,
                )
            elif kind == "prim::CallMethod":
                called, at = modules.get(
                    next(iter(node.inputs())).debugName(), (None, path)
                )
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
            self.graph(
                graph,
                instance,
                path,
                self._line(node) or users_line,
                (*callers, name),
            )

    def _note(
        self, node: Any, kind: str, path: str, users_line: str | None
    ) -> None:
        tensors = any(_holds_tensor(output.type()) for output in node.outputs())
        called = users_line is not None and kind.startswith("aten::")
        source = _source(node) if tensors or called else None
        if source is None:
            return
        key = "%s|%s" % (kind, source)
        if called and self._is_library(source):
            self.found.setdefault(key, {})[str(users_line)] = None
        if tensors:
            self.layers.setdefault(key, []).append(_joined(path, _hierarchy(node)))

    def _line(self, node: Any) -> str | None:
        """``file:line`` of a call in the user's own files; None for installed
        packages."""
        source = _source(node)
        if source is None or self._is_library(source):
            return None
        return source.rpartition(":")[0]

    def _is_library(self, source: str) -> bool:
        return source.startswith((self._torch_folder, "<")) or bool(
            _PACKAGES.search(source)
        )


def _holds_tensor(type_: Any) -> bool:
    """True if a type is or contains a tensor. In a traced graph a tensor's type has
    its sizes: ``Float(8, 128)``."""
    return type_.kind() == "TensorType" or "Tensor" in type_.str()


def _source(node: Any) -> str | None:
    match = _SOURCE.search(str(node).split("\n", 1)[0])
    if match:
        return match.group(1)
    return None


def _joined(path: str, inner: str) -> str:
    if path and inner:
        return "%s.%s" % (path, inner)
    return path or inner


def _hierarchy(node: Any) -> str:
    """The modules that a node was inlined from, as far as its graph states them; ""
    if it was not inlined."""
    hierarchy = getattr(node, "getModuleHierarchy", None)
    names: list[str] = []
    for name, _ in _ENTRY.findall(hierarchy() if hierarchy is not None else ""):
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
