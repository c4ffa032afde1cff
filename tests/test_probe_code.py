"""What the probe's source may hold: Python 3.7, the standard library and torch,
nothing of the package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusiondoc

PACKAGE = Path(fusiondoc.__file__).parent
FILES = sorted((PACKAGE / "probe").glob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    """Roots of all absolute imports."""
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            roots.add(str(node.module).split(".")[0])
    return roots


def test_there_is_a_probe() -> None:
    assert {"__main__.py", "actions.py", "knobs.py"} <= {
        path.name for path in FILES
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_python_37_can_read_it(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 7))


@pytest.mark.skipif(
    sys.version_info < (3, 10), reason="sys.stdlib_module_names is new in 3.10"
)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_imports_the_standard_library_and_torch_only(path: Path) -> None:
    others = imported(ast.parse(path.read_text("utf-8"))) - set(
        sys.stdlib_module_names
    )
    assert others <= {"torch"}


IN_THE_USERS_PROCESS = {"workflows/run_model.py"}
"""Runs where the user's program has imported torch already, and asks for it when a
model is handed over."""

RUN_IN_CHILDREN = {"suites/timed_programs.py"}
"""The targets of the suites; nothing in the package imports them
(``suites/__init__.py`` names the file)."""


def test_the_package_imports_torch_nowhere_else() -> None:
    package = Path(fusiondoc.__file__).parent
    by_name = set()
    for path in package.rglob("*.py"):
        if "probe" not in path.relative_to(package).parts:
            name = path.relative_to(package).as_posix()
            source = path.read_text("utf-8")
            named = re.search(
                r"^\s*(from|import) .*\btorch\b", source, re.M
            )  # few files are worth a parse
            found = bool(named) and "torch" in imported(ast.parse(source))
            assert found == (name in RUN_IN_CHILDREN), path
            assert not re.search(
                r"^\s*(from|import) .*timed_programs", source, re.M
            ), path
            if re.search(r"(import_module|__import__)\(\s*.torch\b", source):
                by_name.add(path.relative_to(package).as_posix())
    assert by_name == IN_THE_USERS_PROCESS


def test_only_the_fixture_itself_brings_torch() -> None:
    code = "import sys, fusiondoc.pytest_plugin, fusiondoc.testing; sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=str(PACKAGE.parent), check=False
    )
    assert done.returncode == 0


def test_start_up_file_is_readable_to_old_pythons() -> None:
    """It has to say that Python 3.6 or 2.7 is too old, so it must not fail to
    compile there."""
    source = next(path for path in FILES if path.name == "__main__.py").read_text(
        "utf-8"
    )
    tree = ast.parse(source, feature_version=(3, 4))
    assert "annotations" not in source
    assert not any(
        isinstance(node, (ast.JoinedStr, ast.AnnAssign)) for node in ast.walk(tree)
    )
