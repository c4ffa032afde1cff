"""Python 3.7 can import what runs beside torch: held by reading the source, so that
newer Pythons find it out too, and by a real import where there is such a Python."""

from __future__ import annotations

import ast
import collections.abc
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from old_pythons import python_of

import fusiondoc

PACKAGE = Path(fusiondoc.__file__).parent
PROBE = PACKAGE / "probe"
FILES = [
    *sorted(PROBE.glob("*.py")),
    PACKAGE / "suites" / "timed_programs.py",
    PACKAGE / "repro" / "body.py.txt",
]
"""The probe, the targets of the suites, and what every script of ``repro``
holds."""

BUILTIN = {"dict", "list", "tuple", "set", "frozenset", "type"}
NEWER_METHODS = {"removeprefix", "removesuffix", "is_relative_to", "with_stem"}
NEWER_FUNCTIONS = {
    "ast": {"unparse", "get_source_segment"},
    "asyncio": {"to_thread"},
    "contextlib": {"aclosing", "chdir"},
    "functools": {"cache", "cached_property", "singledispatchmethod"},
    "inspect": {"get_annotations"},
    "itertools": {"pairwise", "batched"},
    "math": {"comb", "dist", "isqrt", "lcm", "nextafter", "perm", "prod", "ulp"},
    "os": {"add_dll_directory", "memfd_create", "waitstatus_to_exitcode"},
    "random": {"randbytes"},
    "shlex": {"join"},
    "statistics": {"fmean", "geometric_mean", "multimode", "quantiles"},
    "sys": {"addaudithook", "exception", "stdlib_module_names", "unraisablehook"},
    "threading": {"excepthook", "get_native_id"},
    "typing": {
        "Annotated",
        "Final",
        "Literal",
        "ParamSpec",
        "Protocol",
        "Self",
        "TypeAlias",
        "TypedDict",
        "TypeGuard",
        "final",
        "get_args",
        "get_origin",
        "runtime_checkable",
    },
}
"""Module -> names of it that came after Python 3.7."""

IMPORT_PROBE = """
import importlib, importlib.util, os, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    "_probe", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
package = sys.modules["_probe"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name != "__init__.py")
for name in names:
    importlib.import_module("_probe." + name)
assert "torch" not in sys.modules
print(len(names), "files", sys.version.split()[0])
"""


def evaluated(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of annotations, which ``from __future__ import
    annotations`` leaves unread."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in node.__dict__.items():
            if name in ("annotation", "returns"):
                continue
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(item for item in value if isinstance(item, ast.AST))


def too_new(source: str) -> list[tuple[str, int]]:
    """What Python 3.7 refuses, with its line: subscripts such as ``Sequence[int]``
    of collections.abc or ``list[int]``, and methods and functions that came later.

    Raises:
        SyntaxError: Python 3.7 cannot read it.
    """
    nodes = list(evaluated(ast.parse(source, feature_version=(3, 7))))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    from_abc = {
        alias.asname or alias.name
        for node in imports
        if node.module == "collections.abc"
        for alias in node.names
    }
    classes = BUILTIN | (from_abc & set(collections.abc.__all__))
    found = []
    for node in nodes:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in classes
        ):
            found.append((node.value.id, node.lineno))
        elif isinstance(node, ast.Attribute):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in NEWER_METHODS or node.attr in NEWER_FUNCTIONS.get(
                module, ()
            ):
                found.append((node.attr, node.lineno))
        elif isinstance(node, ast.ImportFrom):
            newer = NEWER_FUNCTIONS.get(node.module or "", set())
            found += [
                (alias.name, node.lineno)
                for alias in node.names
                if alias.name in newer
            ]
    return found


def test_python_37_can_import_what_runs_beside_torch() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): too_new(path.read_text("utf-8"))
        for path in FILES
    }
    assert (
        len(found) > 25
        and {name: lines for name, lines in found.items() if lines} == {}
    )


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9"])
def test_an_old_python_really_imports_the_probe_and_compiles_the_rest(
    version: str,
) -> None:
    """Without torch: each file of the probe imports it when it is needed."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"needs Python {version}")
    done = subprocess.run(
        [python, "-I", "-B", "-c", IMPORT_PROBE, PROBE],
        capture_output=True,
        text=True,
        check=False,
    )
    number = len(list(PROBE.glob("*.py"))) - 1
    assert done.stdout.startswith(f"{number} files {version}."), done.stderr
    others = [path for path in FILES if path.parent != PROBE]
    compiles = "import sys; [compile(open(path, encoding='utf-8').read(), path, 'exec') for path in sys.argv[1:]]"
    subprocess.run([python, "-I", "-c", compiles, *others], check=True)


def test_the_check_finds_what_37_refuses() -> None:
    assert too_new(
        "from collections.abc import Sequence\nclass A(Sequence[int]): ..."
    )
    assert too_new("from __future__ import annotations\nNames = list[str]")
    assert not too_new(
        "from __future__ import annotations\ndef f(x: list[int]) -> dict[str, int]: ..."
    )
    assert too_new("'a'.removeprefix('b')") == [("removeprefix", 1)]
    assert not too_new("from typing import Sequence\nclass A(Sequence[int]): ...")
    assert too_new("import math\nmath.prod([1])") == [("prod", 2)]
    assert too_new("from typing import Protocol") == [("Protocol", 1)]
    with pytest.raises(SyntaxError):
        too_new("if (x := 1): ...")
    with pytest.raises(SyntaxError):
        too_new("def f(x, /): ...")
