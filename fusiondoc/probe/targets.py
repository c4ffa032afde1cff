"""Loads the target: a file's or module's model, a TorchScript archive, or nothing
(a script).

Whether a Python file is a module with a model and inputs, or a script, is read from
its source, without running it.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import zipfile
from types import ModuleType
from typing import Any, Iterator

from . import Refused, UserError, first_line
from .fusers import COMPILER
from .log_and_records import Clock
from .models import device_of, home, move, signature
from .pass_inputs import from_module, from_texts


class ProgramSource:
    """A parsed source file. Raises SyntaxError as Python would."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            self.source = file.read()
        self.tree = ast.parse(self.source, path)

    def binds(self, name: str) -> bool:
        """True if the module's top level may define ``name`` (also inside if, try,
        with and for)."""
        return any(
            name in _bound(statement) for statement in _top_level(self.tree.body)
        )

    def runs_nothing(self) -> bool:
        """True if running the file as a script only defines things."""
        return all(_only_defines(statement) for statement in self.tree.body)

    def candidates(self) -> list[str]:
        """Public functions and names that a user may have meant in
        ``FILE.py:NAME``."""
        candidates = []
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                candidates.append(node.name)
        return candidates


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            continue
        for field in ("body", "orelse", "finalbody"):
            for inner in _top_level(getattr(statement, field, [])):
                yield inner
        for handler in getattr(statement, "handlers", []):
            for inner in _top_level(handler.body):
                yield inner


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        names = set()
        for alias in statement.names:
            names.add((alias.asname or alias.name).split(".")[0])
        return names
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif (
        isinstance(statement, (ast.AnnAssign, ast.AugAssign))
        and statement.value is not None
    ):
        targets = [statement.target]
    names = set()
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                names.add(node.id)
    return names


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(
        statement,
        (
            ast.Import,
            ast.ImportFrom,
            ast.FunctionDef,
            ast.AsyncFunctionDef,
            ast.ClassDef,
            ast.Pass,
        ),
    ):
        return True
    if isinstance(statement, ast.Assign) and _bound(statement) & {
        "model",
        "inputs",
    }:
        return True
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return True
    if (
        isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr))
        and statement.value is not None
    ):
        return not any(
            isinstance(node, (ast.Call, ast.Await))
            for node in ast.walk(statement.value)
        )
    return False


class FoundModel:
    """A model and the source of its inputs: ``inputs`` is the module's attribute
    ``inputs``, or None."""

    def __init__(self, model: Any, label: str, module: ModuleType | None) -> None:
        self.model = model
        self.label = label
        self.inputs = getattr(module, "inputs", None)


def runs_as_script(
    target: dict[str, Any], has_inputs: bool
) -> tuple[bool, str | None]:
    """Return whether the target runs as a script, and a note with the reason.
    Decided from the source alone, because to run the file for this would do its
    work twice.

    Args: target: ``{"kind": "file", "path", "name"}`` and the like, of the spec.
        has_inputs: ``--input`` was given, so the module's ``inputs`` are not
        needed.
    """
    if target["kind"] != "file" or target["name"]:
        return False, None
    try:
        program = ProgramSource(target["path"])
    except (SyntaxError, ValueError) as error:
        raise UserError("import") from error.with_traceback(None)
    file = os.path.basename(target["path"])
    model, inputs = program.binds("model"), program.binds("inputs")
    if model and (inputs or has_inputs):
        return False, None
    if model:
        missing = "%s defines 'model' but no 'inputs'" % file
    else:
        missing = "%s defines no 'model'" % file
    if has_inputs or program.runs_nothing():
        names = program.candidates()
        named = "name the function: %s:%s" % (file, names[0] if names else "NAME")
        if model:
            advice = "Add inputs = (...) to it, or give --input 'float32[8,128]'"
        else:
            advice = (
                "Add model = ... and inputs = (...) to it, or "
                + named
                + ", with --input 'float32[8,128]'"
            )
        problem = "" if model or not has_inputs else "; --input is for a model"
        if has_inputs:
            nothing = ""
        else:
            nothing = ", and does nothing when it is run as a script"
        raise Refused("target", missing + problem + nothing, advice + ".")
    return True, missing + ": run as a script"


class Ready:
    """A target that has been loaded: its model on the device, and functions that
    return a pass's arguments."""

    def __init__(self, label: str, model: Any, shapes: list[Any]) -> None:
        self.label = label
        self.model = model
        self.shapes = shapes


def ready(torch: Any, spec: dict[str, Any], clock: Clock) -> Ready:
    device = device_of(torch, spec["device"])
    with clock.users_work():
        loaded = _load(torch, spec["target"], device)
        model = move(torch, loaded.model, device)
    if spec["inputs"]:
        shapes = [
            from_texts(
                torch,
                spec["inputs"],
                device if device is not None else home(torch, model),
            )
        ]
    elif spec.get("shapes"):
        where = device if device is not None else home(torch, model)
        shapes = [from_texts(torch, texts, where) for texts in spec["shapes"]]
    elif loaded.inputs is not None:
        shapes = from_module(
            torch, loaded.inputs, device, "inputs of " + loaded.label.split(":")[0]
        )
    else:
        declared = signature(model)
        raise Refused(
            "inputs",
            "no inputs for %s" % loaded.label,
            "Give one --input for each argument, such as --input 'float32[8,128]'%s."
            % (
                " (declared as %s)" % declared
                if declared
                else ", or define 'inputs' in the file"
            ),
        )
    return Ready(loaded.label, model, shapes)


def _load(torch: Any, target: dict[str, Any], device: Any) -> FoundModel:
    """Import the target and find its model; raises Refused (no such name) or
    UserError (it failed)."""
    kind, name = target["kind"], target["name"]
    call = target.get("call")
    if kind == "archive":
        return FoundModel(
            _archive(torch, target["path"], device),
            os.path.basename(target["path"]),
            None,
        )
    if kind == "module":
        module = _module(target["module"])
    else:
        module = _file(target["path"])
    if kind == "module":
        where = target["module"]
    else:
        where = os.path.basename(target["path"])
    found = _attribute(module, name or "model", where)
    if call is None:
        return FoundModel(
            _model(found, name or "model", where),
            "%s:%s" % (where, name or "model"),
            module,
        )
    return FoundModel(
        _called(found, "%s%s" % (name, call), where),
        "%s:%s%s" % (where, name, call),
        module,
    )


def _file(path: str) -> ModuleType:
    """The file as a module, named by its stem unless another module already has
    that name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem.isidentifier() and stem not in sys.modules:
        name = stem
    else:
        name = "_fusiondoc_target"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        relative = "relative import" in str(error)
        raise UserError("import", _as_module(path) if relative else None) from error
    except (Exception, SystemExit) as error:
        raise UserError("import") from error
    return module


def _as_module(path: str) -> str | None:
    """Advice to name a file that is part of a package as a module: its imports only
    work inside the package."""
    folder, file = os.path.split(path)
    parts = [os.path.splitext(file)[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if len(parts) == 1:
        # A package without __init__.py: its own folder's name is the least that a
        # relative import needs.
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if os.path.realpath(folder) == os.path.realpath(os.getcwd()):
        where = "the current folder"
    else:
        where = folder
    return (
        "The file is part of a package: from %s name it as a module: %s:model"
        % (where, ".".join(parts))
    )


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise UserError("import") from error
        raise Refused(
            "target",
            "there is no module '%s' (looked in the current folder and the interpreter's packages)"
            % error.name,
            "Run from the folder that holds it, or name the file: path/to/file.py:NAME.",
        ) from None
    except (Exception, SystemExit) as error:
        raise UserError("import") from error


def _attribute(module: ModuleType, name: str, where: str) -> Any:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            public = [word for word in dir(found) if not word.startswith("_")]
            callables = []
            for word in public:
                if callable(getattr(found, word, None)):
                    callables.append(word)
            near = difflib.get_close_matches(part, public, n=3)
            if near:
                hint = "Did you mean %s?" % " or ".join(
                    "'%s'" % word for word in near
                )
            else:
                hint = "It has: %s." % (
                    ", ".join(callables[:12]) or "nothing that can be called"
                )
            raise Refused(
                "target", "%s has no '%s'" % (where, name), hint
            ) from None
    return found


def _called(found: Any, expression: str, where: str) -> Any:
    """The result of calling the function or class with the arguments in the target,
    which are literals."""
    if not callable(found):
        raise Refused(
            "target",
            "%s has '%s', which cannot be called"
            % (where, expression.partition("(")[0]),
        )
    call = ast.parse(expression, mode="eval").body
    assert isinstance(call, ast.Call)
    positional = [ast.literal_eval(arg) for arg in call.args]
    named = {}
    for keyword in call.keywords:
        named[str(keyword.arg)] = ast.literal_eval(keyword.value)
    try:
        made = found(*positional, **named)
    except (Exception, SystemExit) as error:
        raise UserError(
            "call", "That is %s:%s, as the target names it." % (where, expression)
        ) from error
    return _model(made, expression, where)


def _model(found: Any, name: str, where: str) -> Any:
    """Return ``found`` if it can be run as a model."""
    if isinstance(found, type):
        raise Refused(
            "target",
            "%s:%s is a class, not a model" % (where, name),
            "Call it with its arguments, such as '%s:%s', or make an instance in the file and name that."
            % (where, _call(found)),
        )
    if not callable(found):
        raise Refused(
            "target",
            "%s:%s is of type %s, which cannot be called"
            % (where, name, type(found).__name__),
            "Name an nn.Module, a function or a scripted one.",
        )
    return found


def _call(found: type) -> str:
    """A call of the class with the names of its required arguments."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = []
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            needed.append(parameter.name)
    return "%s(%s)" % (found.__name__, ", ".join(needed))


def _archive(torch: Any, path: str, device: Any) -> Any:
    try:
        return torch.jit.load(path, map_location=device)
    except RuntimeError as error:
        if _is_exported(path):
            raise Refused(
                "target",
                "%s is an archive of torch.export, which holds no TorchScript"
                % os.path.basename(path),
                "Name the Python that makes the model: FILE.py:NAME, with --input. To see what torch.compile "
                "makes of it: fusiondoc bench FILE.py --variant eager --variant %s"
                % COMPILER,
            ) from None
        first = first_line(error).split(". ")[
            0
        ]  # the rest is torch's guess at the cause
        raise Refused(
            "target",
            "%s is no TorchScript archive: %s" % (os.path.basename(path), first),
            "Save the model with torch.jit.save(torch.jit.script(model), 'model.pt'); "
            "a file of torch.save needs its Python code: name that.",
        ) from None


def _is_exported(path: str) -> bool:
    """True if torch.export wrote the file: a zip with "archive_format"
    (torch/export/pt2_archive) or, before 2.8, "serialized_exported_program.json"
    (torch/export/__init__.py)."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [os.path.basename(name) for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return False
    return "archive_format" in names or "serialized_exported_program.json" in names
