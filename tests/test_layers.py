"""The layout of the package: who may import whom (the table of CONTRIBUTING.md),
circles, names and sizes; how dense its code is, and that a fact stands in one
place.

Every import statement counts, at the top of a module or inside a function; one
under ``if TYPE_CHECKING`` counts as an arrow, but closes no circle, as it is never
run.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import ROOT
from measures import (
    complex_functions,
    decisions_by_words,
    expressions,
    names_a_fuser,
    operator_tables,
    statements_right_inside,
    tokens,
)
from thorough import every

pytestmark = pytest.mark.xdist_group("layers")  # all arrows are looked for once
PACKAGE = ROOT / "fusiondoc"
EVERYWHERE = {"masking", "numbers", "version", "whole_files"}
"""What anything may import: they import nothing of the package."""

# -- where today's code is above a rule: each figure and list may only become smaller

TOKENS_A_LINE = 7.0
"""On average: a line is one step."""
COMPREHENSIONS = 30
"""For each 1,000 lines of code: a loop over several lines is a statement."""
CONDITIONAL_EXPRESSIONS = 18
"""The same: a choice that is returned, or takes several lines, is a statement."""
MOST_TOKENS = 5_000
"""Of a file."""
MOST_COMPLEX = 15
"""Decisions of a function at most, and one (``complexity`` in measures.py)."""
FILES_THAT_NAME_A_FUSER = 18
"""Although they are none of a fuser's; to become a list of those that use the
fusers' registry."""
OPERATOR_TABLES = {
    # The table, what fusers take of it, and other ways to write an operator
    "operators.table": 1,
    "fusers.nnc.takes": 1,
    "fusers.nvfuser.takes": 1,
    "fusers.onednn.takes": 1,
    "changes.recipes": 1,
    "fusers.inductor.compositions": 1,
    # Words of sentences that are names of operators too: to, log, view, copy
    "fuser_knobs.knob_table": 1,
    "fusers.nnc.knobs": 1,
    "fusers.nnc.log": 1,  # conditions, one for each operator that NNC names
    "fusers.te.rules": 1,
    "model.codes": 1,
    "model.inductor_codes": 2,
    "model.reasons.words_of_inductor": 1,
    # Other words
    "fusers.inductor.causes": 1,  # texts of torch
    "masking.secret_names": 1,
}
"""File -> values that name three operators."""
SHARED_CLASS_NAMES = {
    "Bench": {"model.bench", "probe.benchmark"},  # the result, and what times it
    "FusedModules": {"model.aot", "probe.frontends"},  # the counts, and the counter
    "Steps": {"model.runs", "probe.benchmark_steps"},  # their times, and the steps
    "Watch": {"probe.aot_watch", "probe.te_plans"},  # of AOTAutograd, and of TE
}
"""Class name -> the files that define it. Each has one in ``probe/``, which runs by
itself in the user's interpreter: its files import such a class from one another, and
none of the package's."""

ENTRANCES = {"", "__main__"}
"""``fusiondoc/__init__.py`` and ``__main__.py``: the doors to all of it, which
nothing else goes through."""


class Arrow(NamedTuple):
    """An import statement."""

    importer: str
    imported: str
    line: int
    """In the importer's file."""
    typing_only: bool


def module_name(path: Path, package: Path) -> str:
    """``fusiondoc.cli``; that of a package for its ``__init__.py``."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(package: Path) -> dict[str, Path]:
    return {
        module_name(path, package): path for path in sorted(package.rglob("*.py"))
    }


def arrows(
    sources: Mapping[str, str], packages: set[str], only: str | None = None
) -> list[Arrow]:
    """All imports of modules among ``sources`` (name and text); ``packages`` are
    those that are folders.

    Of ``only`` one module, where it is given.
    """
    found = []
    for name, text in sources.items() if only is None else [(only, sources[only])]:
        for node, typing_only in _imports_of(text):
            for target in _targets(node, name, name in packages, sources):
                found.append(Arrow(name, target, node.lineno, typing_only))
    return found


parsed = cache(ast.parse)


@cache
def _imports_of(text: str) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    return list(_imports(parsed(text), False))


def _imports(
    node: ast.AST, typing_only: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in statements_right_inside(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, typing_only
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in (
            getattr(child.test, "id", None),
            getattr(child.test, "attr", None),
        ):
            yield from _imports(child, True)
        else:
            yield from _imports(child, typing_only)


def _targets(
    node: ast.Import | ast.ImportFrom,
    importer: str,
    is_package: bool,
    known: Mapping[str, str],
) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            parents = (
                importer.split(".") if is_package else importer.split(".")[:-1]
            )
            base = ".".join(
                filter(None, [*parents[: len(parents) - node.level + 1], base])
            )
        inner = [f"{base}.{alias.name}" for alias in node.names]
        names = [name if name in known else base for name in inner]
    yield from sorted({name for name in names if name in known})


def room(module: str) -> str:
    """The folder of a module, or the module itself where it is beside the
    folders."""
    return module.split(".")[1] if "." in module else ""


def allowed(page: str) -> dict[str, set[str]]:
    """Room -> what it may import, from the table of the page; "all below" means the
    rows below it."""
    rows: list[tuple[list[str], str]] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `fusiondoc/") and len(cells) == 3:
            rows.append(
                (re.findall(r"`fusiondoc/(\w+)(?:/|\.py)`", cells[0]), cells[2])
            )
    every = [name for names, _ in rows for name in names]
    found: dict[str, set[str]] = {}
    for index, (names, may) in enumerate(rows):
        below = {name for others, _ in rows[index + 1 :] for name in others}
        words = {word.strip() for word in re.sub(r"\([^)]*\)", "", may).split(",")}
        if words == {"all below"}:
            reach = below
        elif words & {"nothing", "standard library and torch only"}:
            reach = set()
        else:
            reach = words
            assert words <= below, (
                f"{names}: {words - below} is not a row further down"
            )
        for name in names:
            found[name] = reach | set(names)
    assert len(every) == len(set(every))
    return found


def against(table: Mapping[str, set[str]], found: list[Arrow]) -> list[str]:
    """The arrows that the table does not have, as sentences."""
    return [
        f"{arrow.importer}:{arrow.line} imports {arrow.imported}: {room(arrow.importer)}/ may not import "
        f"{room(arrow.imported)}/"
        for arrow in found
        if room(arrow.importer) not in ENTRANCES
        and room(arrow.imported)
        not in table.get(room(arrow.importer), set()) | EVERYWHERE
    ]


def circles(found: list[Arrow], of_types: bool = False) -> list[list[str]]:
    """Groups of modules that import one another, directly or through others
    (Tarjan's components).

    Args:
        of_types: an import under ``if TYPE_CHECKING`` counts too.
    """
    following: dict[str, set[str]] = defaultdict(set)
    for arrow in found:
        # A module imports its own package by being there; that is no statement of
        # its own.
        if (of_types or not arrow.typing_only) and arrow.importer != arrow.imported:
            following[arrow.importer].add(arrow.imported)
    reach = {start: _reachable(start, following) for start in following}
    parts = {
        frozenset(other for other in reach[start] if start in reach.get(other, ()))
        | {start}
        for start in reach
        if start in reach[start]
    }
    return sorted(sorted(part) for part in parts)


def _reachable(start: str, following: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for after in following.get(waiting.pop(), ()):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


MODULES = modules(PACKAGE)
SOURCES = {name: path.read_text("utf-8") for name, path in MODULES.items()}
FOLDERS = {name for name, path in MODULES.items() if path.name == "__init__.py"}
TABLE = allowed((ROOT / "CONTRIBUTING.md").read_text("utf-8"))


@cache
def all_arrows() -> list[Arrow]:
    return arrows(SOURCES, FOLDERS)


def test_every_import_is_in_the_table_of_contributing() -> None:
    assert against(TABLE, all_arrows()) == []


def test_every_folder_has_a_row() -> None:
    beside = {room(name) for name in MODULES} - ENTRANCES - EVERYWHERE
    assert beside == set(TABLE)


def test_no_module_imports_itself_through_others() -> None:
    assert circles(all_arrows()) == []


REASON = re.compile(r"\(named as [\w/]+\.py: .+\)|^\"\"\"``fusiondoc [a-z]+``")
"""In the first sentence of a file: why its name is there twice: ``(named as
cli/kernels.py: its work)``.

A file of ``cli/`` is named as its command, which its first sentence names.
"""


def test_no_name_stands_twice_without_a_reason() -> None:
    without: dict[str, list[str]] = defaultdict(list)
    for path in MODULES.values():
        first = " ".join(path.read_text("utf-8").split("\n\n", 1)[0].split("\n"))
        if path.parent.parent == PACKAGE / "fusers":
            continue  # the folder of a fuser has a module a concern, of the same name in each
        if not path.name.startswith("__") and not REASON.search(first):
            without[path.stem].append(path.relative_to(ROOT).as_posix())
    assert {stem: paths for stem, paths in without.items() if len(paths) > 1} == {}


def shared_class_names(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the names of public classes that several files define, each with the
    names of these files."""
    files: dict[str, set[str]] = defaultdict(set)
    for name, text in sources.items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(name.removeprefix("fusiondoc."))
    return {name: where for name, where in files.items() if len(where) > 1}


def test_no_public_class_has_the_name_of_another() -> None:
    assert shared_class_names(SOURCES) == SHARED_CLASS_NAMES


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("class Report: ...", {"Report": {"model.report", "new"}}),
        ("def f():\n    class Report: ...", {"Report": {"model.report", "new"}}),
        ("class NoOther: ...", {}),
        ("class _Reader: ...", {}),  # seen in its file alone
        ("class Bench: ...", {"Bench": {*SHARED_CLASS_NAMES["Bench"], "new"}}),
    ],
)
def test_another_class_of_a_name_is_found(
    text: str, shared: dict[str, set[str]]
) -> None:
    found = shared_class_names({**SOURCES, "fusiondoc.new": text})
    assert found == {**SHARED_CLASS_NAMES, **shared}


def test_the_files_that_the_guide_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(
        r"`((?:fusiondoc|tests|docs|benchmarks)/[\w/.]+\.(?:py|css|json))`", text
    )
    assert len(named) >= 20
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_guide_is_two_pages() -> None:
    assert (ROOT / "CONTRIBUTING.md").read_text("utf-8").count("\n") <= 140


def test_no_module_imports_itself_through_types() -> None:
    assert circles(all_arrows(), of_types=True) == []


def test_lines_are_no_denser_and_no_file_is_too_large() -> None:
    found = {name: tokens(text) for name, text in SOURCES.items()}
    assert {
        name: number for name, (number, _) in found.items() if number > MOST_TOKENS
    } == {}
    density = sum(number for number, _ in found.values()) / sum(
        lines for _, lines in found.values()
    )
    assert round(density, 1) <= TOKENS_A_LINE


def test_steps_are_statements() -> None:
    lines = sum(tokens(text)[1] for text in SOURCES.values())
    found = [expressions(parsed(text)) for text in SOURCES.values()]
    comprehensions, conditional = map(sum, zip(*found))
    assert 1000 * comprehensions / lines <= COMPREHENSIONS
    assert 1000 * conditional / lines <= CONDITIONAL_EXPRESSIONS


def test_no_function_decides_too_much() -> None:
    found = [
        (number, f"{name}.{function}")
        for name, text in SOURCES.items()
        for function, number in complex_functions(text, parsed(text), MOST_COMPLEX)
    ]
    assert not found, sorted(found, reverse=True)


def _more_than(
    known: Mapping[str, int], found: Mapping[str, int]
) -> dict[str, int]:
    """What is found in a file beyond what is known of it."""
    short = {
        name.removeprefix("fusiondoc."): number for name, number in found.items()
    }
    return {
        name: number
        for name, number in short.items()
        if number > known.get(name, 0)
    }


def test_no_decision_is_made_by_the_words_of_a_sentence() -> None:
    found = {
        name: decisions_by_words(text, parsed(text))
        for name, text in SOURCES.items()
    }
    assert _more_than({}, found) == {}


def test_operators_are_listed_in_their_table_and_with_the_fusers() -> None:
    found = {name: operator_tables(parsed(text)) for name, text in SOURCES.items()}
    assert _more_than(OPERATOR_TABLES, found) == {}


def test_no_more_files_name_a_fuser() -> None:
    paths = {
        name: path.relative_to(PACKAGE).as_posix() for name, path in MODULES.items()
    }
    found = [
        name for name, text in SOURCES.items() if names_a_fuser(text, paths[name])
    ]
    assert len(found) <= FILES_THAT_NAME_A_FUSER, found


def test_the_measures_find_what_they_look_for() -> None:
    dense = "def f(a):\n    return [b for b in a if b and a] or (1 if a else 2)\n"
    assert list(complex_functions(dense, ast.parse(dense), 5)) == [("f", 6)]
    assert list(complex_functions(dense, ast.parse(dense), 6)) == []
    inside = f"class A:\n    if b:\n{textwrap.indent(dense, ' ' * 8)}"
    assert list(complex_functions(inside, ast.parse(inside), 5)) == [("f", 6)]
    assert expressions(ast.parse(dense)) == (1, 1)
    assert tokens('# a comment\nx = f"{y} {z}"\n') == (3, 1)
    words = "if 'lost' in reason.text or finding.advice.startswith('Nothing') or re.search('a', x.message): pass"
    assert decisions_by_words(words, ast.parse(words)) == 3
    codes = "found = code in reason.codes and reason.text"
    assert decisions_by_words(codes, ast.parse(codes)) == 0
    assert (
        operator_tables(
            ast.parse("A = {'aten::add', 'mul_'}\nB = ('add', 'mul', 'relu')")
        )
        == 1
    )
    assert names_a_fuser("# nvFuser", "views/parts.py") and not names_a_fuser(
        "# nvFuser", "fusers/nvfuser/takes.py"
    )


def _tokens_of_python(text: str) -> tuple[int, int]:
    counted = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    number, lines, inside = 0, set(), 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            inside += 1
        if (token.type in counted and not inside) or (
            name == "FSTRING_START" and inside == 1
        ):
            number += 1
            lines.add(token.start[0])
        if name == "FSTRING_END":
            inside -= 1
    return number, len(lines)


@pytest.mark.parametrize("name", every(40, sorted(SOURCES)))
def test_tokens_are_those_of_python(name: str) -> None:
    assert tokens(SOURCES[name]) == _tokens_of_python(SOURCES[name])


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("fusiondoc.model.report", "from fusiondoc.reports import markdown"),
        ("fusiondoc.parsers.ir.parse", "import fusiondoc.cli"),
        (
            "fusiondoc.model.report",
            "def f():\n    from fusiondoc.diagnosis import reasons",
        ),
        ("fusiondoc.probe.log_and_records", "from ..errors import UsageError"),
        (
            "fusiondoc.captures.store",
            "if TYPE_CHECKING:\n    from fusiondoc.runner.child import run",
        ),
    ],
)
def test_an_arrow_turned_round_is_found(importer: str, statement: str) -> None:
    turned = {**SOURCES, importer: f"{SOURCES[importer]}\n{statement}\n"}
    others = [one for one in all_arrows() if one.importer != importer]
    (said,) = against(TABLE, [*others, *arrows(turned, FOLDERS, importer)])
    assert said.startswith(f"{importer}:")


def test_a_circle_is_found_also_through_a_function_but_not_through_types() -> None:
    def text(body: str) -> dict[str, str]:
        return {"p": "", "p.a": "import p.b", "p.b": "from p import c", "p.c": body}

    assert circles(arrows(text("def f():\n    from . import a"), {"p"})) == [
        ["p.a", "p.b", "p.c"]
    ]
    typed = arrows(text("if TYPE_CHECKING:\n    from . import a"), {"p"})
    assert circles(typed) == []
    assert circles(typed, of_types=True) == [["p.a", "p.b", "p.c"]]
    assert circles(arrows(text("x = 1"), {"p"})) == []
