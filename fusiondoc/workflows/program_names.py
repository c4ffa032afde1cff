"""Names in the text of a program: modules that it imports, and texts that may be
files; and the first line that imports or reads something whose name is not a
literal there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from fusiondoc.model import dataclass
from fusiondoc.workflows.program_text import name_of, nodes_in

_OPAQUE_MODULES = frozenset(
    (
        *(
            "runpy",
            "imp",
            "pkgutil",
            "zipimport",
            "pyximport",
            "subprocess",
            "ctypes",
            "cffi",
            "cppyy",
        ),
        *(
            "pickle",
            "cPickle",
            "dill",
            "cloudpickle",
            "joblib",
            "shelve",
            "sqlite3",
            "builtins",
        ),
    )
)
"""Modules that run or import code without an import statement: a pickle names the
modules of its classes."""
_DYNAMIC = frozenset(
    (
        *(
            "importlib",
            "import_module",
            "__import__",
            "spec_from_file_location",
            "exec_module",
            "find_spec",
        ),
        *(
            "SourceFileLoader",
            "meta_path",
            "path_hooks",
            "execfile",
            "cpp_extension",
            "load_inline",
        ),
        *(
            "CppExtension",
            "CUDAExtension",
            "load_library",
            "_load_library",
            "import_from_string",
        ),
    )
)
"""Names by which Python and torch load code at run time."""
_DYNAMIC_BUILTINS = frozenset(("exec", "eval", "compile", "__import__"))
_OF_SYSTEM = frozenset(("system", "popen", "fork", "posix_spawn"))
_BY_NAME = frozenset(("import_module", "__import__"))
"""Calls that import the module of a literal name as an import statement does."""

_READS = re.compile(
    r"(open\w*|safe_open|read|read_\w+|load|load_\w+|\w+_load|from_(pretrained|file|json\w*|yaml\w*|path|"
    r"single_file)|fromfile|memmap|imread|[ir]?glob|iterdir|listdir|scandir|walk|exists|is_?file|is_?dir|"
    r"l?stat|getmtime|getsize)\Z"
)
"""Functions that read or look at a file or folder."""
_LISTS = re.compile(r"([ir]?glob|iterdir|listdir|scandir|walk)\Z")
_READS_NO_FILE = frozenset(
    ("load_state_dict", "load_model", "_load_state_dict", "load_library")
)
_OF_PATHS = frozenset(
    (
        *(
            "Path",
            "PurePath",
            "PosixPath",
            "str",
            "fspath",
            "join",
            "joinpath",
            "abspath",
            "realpath",
        ),
        *(
            "dirname",
            "resolve",
            "absolute",
            "with_name",
            "with_suffix",
            "expanduser",
            "files",
        ),
        *("read_text", "read_bytes"),
    )
)
"""Calls that return a path made of their arguments and of the path whose methods
they are."""
_PARTS_OF_PATHS = frozenset(("parent", "parents", "name", "stem"))
_LONGEST = 300
"""Characters of a text that may be a path."""


_Name = TypeVar("_Name")


class Imported(NamedTuple):
    """An import: ``from ..a import b`` has level 2, module ``a`` and names
    ``b``."""

    level: int
    module: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramNames:
    """The names in the text of a file."""

    imports: tuple[Imported, ...] = ()
    texts: tuple[str, ...] = ()
    """Texts that may name a file or folder."""
    endings: tuple[tuple[int, str], ...] = ()
    """Endings (``.json``) of texts that are concatenated, with their lines: the
    whole name is unknown."""
    unknown: str | None = None
    """Line and description of the first name that is not a literal: ``7: it calls
    exec``."""


def names_in(text: str | bytes) -> ProgramNames:
    """Return the names in a Python file."""
    nodes = nodes_in(text)
    if nodes is None:
        return ProgramNames(unknown="1: it cannot be parsed")
    unknown = _first_unknown(nodes)
    return ProgramNames(
        _of_all(nodes, _imports),
        _of_all(nodes, _texts),
        _of_all(nodes, _endings),
        unknown,
    )


def _of_all(
    nodes: Iterable[ast.AST], names: Callable[[ast.AST], Iterator[_Name]]
) -> tuple[_Name, ...]:
    found: dict[_Name, None] = {}
    for node in nodes:
        for name in names(node):
            found[name] = None
    return tuple(found)


def _first_unknown(nodes: Sequence[ast.AST]) -> str | None:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {id(call.func) for call in calls}
    by_literal = set()
    for call in calls:
        if _literal_import(call):
            by_literal.add(id(call.func))
    written = _Written(
        frozenset(_of_all(nodes, _names_of_imports)),
        frozenset(_of_all(nodes, _opened_as)),
    )
    unknown: list[tuple[int, str]] = []
    for node in nodes:
        unknown.extend(_unknown(node, by_literal, called, written))
    line, what = min(unknown, key=lambda found: found[0], default=(0, None))
    if what is None:
        return None
    return f"{line}: {what}"


def texts_in_call(call: str) -> tuple[str, ...]:
    """The texts among the arguments of a target's call: ``("configs/a.yaml",
    8)``."""
    return names_in(f"f{call}").texts


def _imports(node: ast.AST) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Imported(0, alias.name)
    elif isinstance(node, ast.ImportFrom):
        yield Imported(
            node.level, node.module or "", tuple(alias.name for alias in node.names)
        )
    elif isinstance(node, ast.Call):
        name = _literal_import(node)
        if name is not None:
            yield Imported(0, name)


def _literal_import(call: ast.Call) -> str | None:
    """``a.b`` of ``import_module("a.b")``."""
    if name_of(call.func) not in _BY_NAME or len(call.args) != 1 or call.keywords:
        return None
    value = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    if isinstance(value, str) and not value.startswith("."):
        return value
    return None


def _names_of_imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]


def _opened_as(node: ast.AST) -> Iterator[str]:
    """``f`` of ``with open(...) as f``: the file is judged at the call."""
    if isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call):
        name = name_of(node.context_expr.func) or ""
        if _READS.match(name) and isinstance(node.optional_vars, ast.Name):
            yield node.optional_vars.id


def _unknown(
    node: ast.AST, by_literal: set[int], called: set[int], written: _Written
) -> Iterator[tuple[int, str]]:
    """Yield the line of a node, and how it uses a name that is not a literal in the
    text."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        what = _opaque_import(node)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        what = _dynamic_name(node, id(node) in by_literal, id(node) in called)
    elif isinstance(node, ast.Call):
        what = written.why_unknown(node)
    else:
        return
    if what is not None:
        yield _line(node), what


def _opaque_import(node: ast.Import | ast.ImportFrom) -> str | None:
    for found in _imports(node):
        root = found.module.split(".")[0]
        if found.level == 0 and root in _OPAQUE_MODULES:
            return f"it imports {root}"
    hidden = (
        alias
        for alias in node.names
        if alias.asname is not None and isinstance(node, ast.ImportFrom)
    )
    renamed = None
    for one in hidden:
        if one.name in _DYNAMIC or _reads(one.name):
            renamed = one
            break
    if renamed is None:
        return None
    return f"it imports {renamed.name} under another name"


def _dynamic_name(
    node: ast.Name | ast.Attribute, by_literal: bool, is_called: bool
) -> str | None:
    name = name_of(node) or ""
    if _is_dynamic(node) and not by_literal and name != "importlib":
        return f"it uses {name}"
    if _reads(name) and not is_called and isinstance(node.ctx, ast.Load):
        return f"it uses {name} under another name"
    return None


def _reads(name: str) -> bool:
    return _READS.match(name) is not None and name not in _READS_NO_FILE


def _is_dynamic(node: ast.Name | ast.Attribute) -> bool:
    name = name_of(node)
    if isinstance(node, ast.Name):
        return name in _DYNAMIC or name in _DYNAMIC_BUILTINS
    of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
    return name in _DYNAMIC or (
        of_os and (name in _OF_SYSTEM or str(name).startswith(("exec", "spawn")))
    )


class _Written:
    """Finds calls that read files whose names are not literals in the call.

    Args:
        modules: names that import statements bind.
        opened: variables of ``with open(...) as``.
    """

    def __init__(self, modules: frozenset[str], opened: frozenset[str]) -> None:
        self._modules = modules | {"open", "str"}
        self._opened = opened

    def why_unknown(self, call: ast.Call) -> str | None:
        """Describe a read whose name is not a literal in the call; None if all
        names are, or the call reads nothing."""
        name = name_of(call.func) or ""
        if not _reads(name):
            return None
        nodes = (node for node in ast.walk(call) if isinstance(node, ast.Constant))
        texts = []
        for node in nodes:
            if isinstance(node.value, str):
                texts.append(node.value)
        if any(text.strip("./") == "" for text in texts) or (
            _LISTS.match(name) and not texts
        ):
            return f"it calls {name}() on a folder"
        if name == "load" and _unpickles(call):
            return "it loads what may import modules"
        if self._call(call):
            return None
        return f"it calls {name}() with a name that is not written there"

    def _call(self, call: ast.Call) -> bool:
        name = name_of(call.func) or ""
        known = _READS.match(name) is not None or name in _OF_PATHS
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        of_known = base is None or self._is_module(base) or self._is_text(base)
        options = all(
            isinstance(one.value, ast.Constant) or self._is_text(one.value)
            for one in call.keywords
        )
        return known and of_known and options and all(map(self._is_text, call.args))

    def _is_text(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id == "__file__" or node.id in self._opened
        if isinstance(node, ast.BinOp):
            return (
                isinstance(node.op, ast.Div)
                and self._is_text(node.left)
                and self._is_text(node.right)
            )
        if isinstance(node, ast.Attribute):
            return node.attr in _PARTS_OF_PATHS and self._is_text(node.value)
        if isinstance(node, ast.Subscript):
            return self._is_text(node.value) and isinstance(
                node.slice, ast.Constant
            )
        return isinstance(node, ast.Call) and self._call(node)

    def _is_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._modules


def _unpickles(call: ast.Call) -> bool:
    """True for ``torch.load`` without ``weights_only=True``, which imports modules
    that the file names, and for ``torch.hub.load``, which imports a hub's code."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name_of(base) not in ("torch", "hub"):
        return False
    given = {one.arg: one.value for one in call.keywords}
    only = given.get("weights_only")
    return not (isinstance(only, ast.Constant) and only.value is True)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value.strip()
        if text and len(text) <= _LONGEST and "\n" not in text:
            yield text


_ENDING = re.compile(r"\.[A-Za-z]\w{0,11}\Z")
_PUT_IN = re.compile(r"[%{]")


def _endings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The endings of texts that are parts of a concatenated text."""
    for part in _parts_of_texts(node):
        found = None
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found = _ENDING.search(part.value)
        if found is not None:
            yield _line(node), found.group()


def _parts_of_texts(node: ast.AST) -> Sequence[ast.AST]:
    """The parts of a concatenated text."""
    if isinstance(node, ast.JoinedStr):
        return node.values
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return [node.left, node.right]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        part = _ENDING.fullmatch(node.value) or _PUT_IN.search(node.value)
        if part is None:
            return []
        return [node]
    return []


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)
