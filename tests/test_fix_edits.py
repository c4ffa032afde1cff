"""Edits of ``fusiondoc fix``: only the meant tokens of a file change, ``--apply``,
what a version is worth, and the formats."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT
from fix_sites import HEAD, MadeProgram, parsed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thorough import examples
from valid_json import validate

from fusiondoc.changes import by_recipe
from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import TextEdit, changed_text, overlapping, read_text
from fusiondoc.changes.inserted_lines import defined, without_unused
from fusiondoc.changes.out_of_place import out_of_place
from fusiondoc.changes.recipes import RECIPES
from fusiondoc.changes.source_file import NotParsable, ParsedFile
from fusiondoc.diagnosis.changes_to_try import at_lines
from fusiondoc.diagnosis.changes_to_try.user_program import UnfusedSite
from fusiondoc.errors import UsageError
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import (
    MOST_TOGETHER,
    ChangeKind,
    ChangeOutcome,
    Fixes,
    TriedFix,
    Version,
)
from fusiondoc.model.remedies import Setting
from fusiondoc.model.runs import Verification
from fusiondoc.reports.fixes_found import as_markdown
from fusiondoc.reports.json_format import as_json
from fusiondoc.views.fix_words import lines, verdict, why_not, within
from fusiondoc.workflows import fix, fix_search
from fusiondoc.workflows.fix import ChangedFile, apply, unified_diff
from fusiondoc.workflows.fix_bundles import ChangeBundle
from fusiondoc.workflows.fix_versions import Rounding
from fusiondoc.workflows.git_files import uncommitted

# -- only the meant tokens ----------------------------------------------------------------------------------

NAMES = st.sampled_from(["x", "tensor", "größe", "_h2"])


COMMENTS = st.sampled_from(
    ["", "  # x += 1, and F.relu(x, inplace=True)", "\t#é", "   "]
)


VALUES = st.sampled_from(
    ["y", "y*2", "y - 1", "(y\n-1)", "g(y, [1,\n  2])", "y if c else 1", "- y"]
)


LINES = st.sampled_from(["+=", "-=", "*=", "/=", "//=", "%="])


OPS = {
    "+=": "add",
    "-=": "sub",
    "*=": "mul",
    "/=": "div",
    "//=": "floor_divide",
    "%=": "remainder",
}


@settings(max_examples=examples(200), deadline=None)
@given(
    NAMES,
    VALUES,
    LINES,
    COMMENTS,
    st.sampled_from(["    ", "\t", "  "]),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_only_the_meant_tokens_change(
    name: str,
    value: str,
    sign: str,
    comment: str,
    indent: str,
    end: str,
    data: st.DataObject,
) -> None:
    before = data.draw(
        st.sampled_from(
            ["", "#!/usr/bin/python\n", '"""A file.\n\n\ttabs"""\n', "x=1;y = 2 \n"]
        )
    )
    deep = indent * data.draw(st.integers(1, 3))
    text = (
        f"{before}@deco( a,\n  b )\ndef outer(y ):{comment}\n{indent}def inner(y, {name}):  \n{indent}{deep}"
        f"{name}  {sign} {value}{comment}\n{indent}{deep}return  {name}\n\n{indent}return inner\n"
    ).replace("\n", end)
    line = text[: text.index(f"{name}  {sign} ")].count("\n") + 1
    edits = out_of_place(parsed(text), line, f"aten::{OPS[sign]}_")
    after = changed_text(text, edits)
    assert edits
    # What was put in, taken out again, leaves the file as it was, byte for byte.
    middle = f"= {name} {sign[:-1]}"
    place = text.index(f"{name}  {sign} ") + len(name) + 2
    assert after[place : place + len(middle)] == middle
    taken = after[:place] + sign + after[place + len(middle) :]
    if len(edits) == 3:
        first = min(edit.start for edit in edits if edit.text == "(")
        shift = len(middle) - len(sign)
        assert after[first + shift] == "("
        rest = taken[:first] + taken[first + 1 :]
        last = max(edit.start for edit in edits if edit.text == ")")
        assert rest[last] == ")"
        taken = rest[:last] + rest[last + 1 :]
    assert taken == text
    compile(after, "m.py", "exec")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(0, 5), st.text("ab\r\n", max_size=3)
        ),
        max_size=4,
    )
)
def test_edits_change_their_places_alone(found: list[tuple[int, int, str]]) -> None:
    text = "".join(chr(97 + n) for n in range(26)) + "0123456789"
    edits = [
        TextEdit(Path("m.py"), start, start + size, new)
        for start, size, new in found
    ]
    if overlapping(edits):
        return
    after = changed_text(text, edits)
    kept = [
        c
        for n, c in enumerate(text)
        if not any(one.start <= n < one.end for one in edits)
    ]
    added = sum(len(one.text) for one in dict.fromkeys(edits))
    assert len(after) == len(kept) + added
    assert [c for c in after if c in kept and c not in "ab\r\n"] == [
        c for c in kept if c not in "ab\r\n"
    ]


STATEMENTS = (
    ("add_", "{0} += y*2", "{0} = {0} + y*2"),
    ("mul_", "{0} *= y -1", "{0} = {0} * (y -1)"),
    (
        "relu_",
        "{0} = F.relu( {0} , inplace = True )",
        "{0} = F.relu( {0} , inplace = False )",
    ),
    ("sub_", "{0} . sub_( # by one\n 1 )", "{0} = {0} . sub( # by one\n 1 )"),
    (
        "hardswish",
        "{0} = F.hardswish({0})",
        "{0} = {0} * (torch.clamp({0} + 3, 0, 6) / 6)",
    ),
    ("square", "{0} = y+torch.square( {0} )", "{0} = y+({0} * {0})"),
    (
        "view",
        "{0} = torch.tanh({0}.view(4, -1 ))",
        "{0} = torch.tanh({0}).view(4, -1 )",
    ),
    ("item", "{0} = {0}*s . item( )", "{0} = {0}*s"),
    ("to", "{0} = {0} .to( y.dtype )", "{0} = {0} .type_as(y)"),
    ("tensor", "{0} = {0}-torch.tensor(1.5, device=y.device)", "{0} = {0}-1.5"),
    (None, "{0} = g({0}, '''x += 1\n\tF.relu(x, inplace=True)''')", None),
    (None, "{0} = f'{{{0}.view(4)}}' if ({0}:=y) is None else {0}", None),
)


"""Operator, a statement that makes it, and the statement as it is to be."""


def all_edits(file: ParsedFile, op: str, line: int) -> tuple[TextEdit, ...]:
    """What the families propose for one operator at a line."""
    why = SimpleNamespace(detail=None, code="")
    row: Any = SimpleNamespace(
        op=f"aten::{op}", index=0, layers=(), reason=why, source=None
    )
    at = UnfusedSite(row, file, line)
    options = SimpleNamespace(trace=True)
    view = op == "view"
    program = MadeProgram(
        sites=[] if view else [at],
        idle_sites=[at] if view else [],
        options=options,
        ran=lambda *of: True,
    )
    if op in ("hardswish", "square"):
        recipe = next(one for one in RECIPES if f"aten::{op}" in one.replaces)
        found = by_recipe.by_recipe(program.line_of(at), recipe)
        return found.edits if found is not None else ()
    if op == "item":
        program.files = [file]
    return tuple(edit for one in at_lines.propose(program) for edit in one.edits)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(STATEMENTS), NAMES, COMMENTS),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["    ", "\t", "   "]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]),
    st.booleans(),
)
def test_apply_changes_the_meant_tokens_and_no_byte_more(
    lines: list[Any], indent: str, end: str, encoding: str, ends: bool
) -> None:
    ops_of = [(statement[0], name) for statement, name, _ in lines]
    # A view with more of its name behind it moves over these lines too; such edits
    # are tried one at a time.
    assume(
        not any(
            one[0] == "view" and one[1] == other[1]
            for one, other in combinations(ops_of, 2)
        )
    )
    head = f"# -*- coding: {encoding.replace('-sig', '')} -*-\n{HEAD}\n@deco( 1,\n  b = 2 )\nclass A( B ):\n"
    before = f"{head}{indent}'''größe'''\n{indent}def m(self, y, s):  # x += 1\n{indent * 2}@deco\n"
    before += f"{indent * 2}def inner(y, s, *a, **k) :\n"
    wanted, sites = before, []
    for (op, old, new), name, comment in lines:
        if op is not None:
            sites.append((op, before.count("\n") + 1))
        before += f"{indent * 3}{old.format(name)}{comment}\n"
        wanted += f"{indent * 3}{(new or old).format(name)}{comment}\n"
    tail = (
        f"\n{indent * 3}return y\n{indent * 2}return inner;  # done" + "\n" * ends
    )
    before, wanted = ((text + tail).replace("\n", end) for text in (before, wanted))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.py"
        path.write_bytes(before.encode(encoding))
        file = ParsedFile(read_text(path))
        edits = tuple(
            dict.fromkeys(
                edit for op, line in sites for edit in all_edits(file, op, line)
            )
        )
        assert not overlapping(edits)
        apply(
            [
                ChangedFile(
                    file.source, changed_text(file.source.text, edits), edits
                )
            ],
            path.parent,
            True,
        )
        assert path.read_bytes() == wanted.encode(encoding)


def test_files_keep_encoding_and_mark(tmp_path: Path) -> None:
    latin = tmp_path / "latin.py"
    latin.write_bytes("# coding: latin-1\r\nx = 'é'\r\n".encode("latin-1"))
    source = read_text(latin)
    assert source.bytes_of(source.text) == latin.read_bytes()
    marked = tmp_path / "marked.py"
    marked.write_bytes(b"\xef\xbb\xbfx = 1\n")
    source = read_text(marked)
    assert (
        source.text == "x = 1\n"
        and source.bytes_of(source.text) == marked.read_bytes()
    )
    latin.write_bytes(b"x = '\xe9'\n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_text(latin)


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "-" * 100_000 + "1\n",
        "def f(:\n",
        "if 1:\n\tx\n        y\n",
        "\x00",
    ],
)
def test_a_file_that_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(NotParsable):
        parsed(text)


@pytest.mark.parametrize(
    "name", ["argparse", "ast", "dataclasses", "difflib", "fractions", "textwrap"]
)
def test_the_text_of_an_expression_with_its_parentheses_is_the_expression(
    name: str,
) -> None:
    """By Python's own parser, for all expressions of files of the standard
    library."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    file = ParsedFile(read_text(Path(spec.origin)))
    parenthesised = 0
    for node in dict.fromkeys(
        node for line in range(1, 5000) for node in file.on_line(line)
    ):
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if (
            isinstance(node, ast.expr)
            and is_read
            and not isinstance(node, (ast.Starred, ast.Slice, ast.Tuple))
        ):
            again = ast.parse(f"({file.whole(node)}\n)", mode="eval").body
            assert ast.dump(again) == ast.dump(node)
            parenthesised += file.is_parenthesised(node)
    assert parenthesised > 0


def test_a_diff_that_patch_applies(tmp_path: Path) -> None:
    before, after = "a\r\nb\r\nc", "a\r\nB\r\nc"
    assert unified_diff(before, after, "m.py") == (
        "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\n\\ No newline at end of file\n"
    )


# -- --apply ------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=str(folder),
        check=True,
        capture_output=True,
    )


def changed_file(path: Path, old: str, new: str) -> ChangedFile:
    source = read_text(path)
    place = source.text.index(old)
    edits = (TextEdit(path, place, place + len(old), new),)
    return ChangedFile(source, changed_text(source.text, edits), edits)


def test_apply_keeps_a_backup_and_never_one_over_another(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(b"x = 1\r\n")
    for number, backup in ((2, "m.py.before-fix"), (3, "m.py.before-fix-2")):
        before = path.read_bytes()
        one = changed_file(path, str(number - 1), str(number))
        assert apply([one], tmp_path, force=False) == [(path, tmp_path / backup)]
        assert path.read_bytes() == b"x = %d\r\n" % number
        assert (tmp_path / backup).read_bytes() == before


def test_a_backup_is_no_way_out_of_the_project(tmp_path: Path) -> None:
    """A link that leads nowhere yet is a name that is taken: a copy would be
    written where it leads."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("x = 1\n")
    (project / "a.py.before-fix").symlink_to(tmp_path / "elsewhere")
    one = changed_file(project / "a.py", "1", "2")
    assert apply([one], project, force=True) == [
        (project / "a.py", project / "a.py.before-fix-2")
    ]
    assert not (tmp_path / "elsewhere").exists()
    assert (project / "a.py.before-fix-2").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    "error",
    [OSError(30, "Read-only file system"), KeyboardInterrupt(), SystemExit(1)],
)
def test_all_files_are_written_or_none(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    files = [changed_file(tmp_path / name, "1", "2") for name in ("a.py", "b.py")]
    write = fix.write_whole

    def fails_at_b(path: Path, data: bytes) -> None:
        if path.name == "b.py":
            raise error
        write(path, data)

    monkeypatch.setattr(fix, "write_whole", fails_at_b)
    expected = UsageError if isinstance(error, OSError) else type(error)
    with pytest.raises(
        expected,
        match="no file was changed" if isinstance(error, OSError) else None,
    ):
        apply(files, tmp_path, force=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.py": "x = 1\n",
        "b.py": "x = 1\n",
    }


def test_apply_refuses_what_is_not_committed_on_those_lines(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    path = tmp_path / "m.py"
    path.write_text("a = 1\nb = 2\nc = 3\n")
    assert uncommitted(path) >= {1, 2, 3}  # git does not know the file
    git(tmp_path, "add", "m.py")
    git(tmp_path, "commit", "-qm", "first")
    path.write_text("a = 1\nb = 20\nc = 3\n")
    assert uncommitted(path) == {2}
    apply([changed_file(path, "3", "4")], tmp_path, force=False)
    with pytest.raises(
        UsageError, match=r"not committed on the lines that would change \(2\)"
    ) as error:
        apply([changed_file(path, "20", "30")], tmp_path, force=False)
    assert "--force" in str(error.value.hint)
    assert path.read_text() == "a = 1\nb = 20\nc = 4\n"
    apply([changed_file(path, "20", "30")], tmp_path, force=True)
    assert path.read_text() == "a = 1\nb = 30\nc = 4\n"


def test_apply_refuses_files_outside_the_project_or_changed_meanwhile(
    tmp_path: Path,
) -> None:
    project, other = tmp_path / "project", tmp_path / "other.py"
    project.mkdir()
    (project / "setup.py").write_text("")
    other.write_text("x = 1\n")
    with pytest.raises(UsageError, match="outside the project"):
        apply([changed_file(other, "1", "2")], project, force=True)
    mine = project / "m.py"
    mine.write_text("x = 1\n")
    one = changed_file(mine, "1", "2")
    mine.write_text("x = 1  # new\n")
    with pytest.raises(UsageError, match="has changed since"):
        apply([one], project, force=True)
    assert sorted(path.name for path in project.iterdir()) == ["m.py", "setup.py"]


# -- a changed text in the place of a file ------------------------------------------------------------------


def test_a_changed_text_is_imported_under_the_files_own_path(
    tmp_path: Path,
) -> None:
    """Relative imports, ``__file__`` and source lines work as ever, and no ``.pyc``
    of it is kept."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "two.py").write_text("value = 2\n")
    (folder / "one.py").write_text("from .two import value\ndef f(): return 1\n")
    changed = tmp_path / "changed.txt"
    changed.write_text(
        "from .two import value\nimport os\nhere = os.path.basename(__file__)\ndef f():\n  return 3\n"
    )
    code = (
        "import sys, inspect, linecache; sys.path[:0] = sys.argv[1:3]\n"
        "from fusiondoc.probe import replaced\n"
        "replaced.replace_sources({sys.argv[2] + '/pack/one.py': sys.argv[3]})\n"
        "from pack import one\n"
        "linecache.checkcache()\n"
        "print(one.f(), one.value, one.here, repr(inspect.getsource(one.f)))\n"
    )
    root = Path(__file__).resolve().parent.parent
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, str(root), str(tmp_path), str(changed)],
            text=True,
            capture_output=True,
            check=True,
        )
        assert done.stdout == "3 2 one.py 'def f():\\n  return 3\\n'\n"
    plain = subprocess.run(
        [sys.executable, "-c", "from pack import one; print(one.f())"],
        cwd=str(tmp_path),
        text=True,
        capture_output=True,
        check=True,
    )
    assert plain.stdout == "1\n"


# -- what a difference is worth, and what is timed ----------------------------------------------------------


def compared(
    what: str,
    off: float,
    same: bool = False,
    phase: str = "backward",
    detail: str | None = None,
) -> Any:
    return Verification(
        1, 0, phase, what, same, off, off, 1e-4, True, True, "value", detail
    )


def test_a_difference_that_roundings_make_is_none() -> None:
    rounding = Rounding([compared("grad a", 1e-3), compared("grad b", 1e-6)])
    assert rounding.explains(compared("grad a", 9e-3))
    assert not rounding.explains(compared("grad a", 2e-2))
    # densenet121 on an H100: the fused run turned another ReLU over than the one
    # rounding had.
    assert rounding.explains(compared("grad b", 9e-4)) and not rounding.explains(
        compared("grad b", 2e-3)
    )
    assert rounding.explains(
        compared("grad of another name", 9e-3)
    )  # as the worst of its phase
    assert not rounding.explains(compared("output 0", 2e-4, phase="forward"))
    assert not rounding.explains(
        compared("grad a", 1e-3, detail="shape [2], before [3]")
    )


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (
            (0, 0, 4),
            (0, 0, 3),
            False,
        ),  # nothing is fused: a branch or an operator went
        ((0, 0, 4), (1, 2, 3), True),
        ((3, 6, 19), (3, 6, 13), True),  # batch norms went into convolutions
        ((3, 12, 8), (2, 8, 7), False),  # a group went with its operators
        (
            (2, 12, 4),
            (1, 11, 2),
            True,
        ),  # two groups became one, without one operator
        ((2, 4, 5), (2, 5, 5), True),
        ((2, 4, 5), (2, 5, 6), False),
        ((2, 4, 5), (0, 0, 0), False),  # no plan is in the log
    ],
)
def test_only_what_fuses_more_is_better(
    before: Any, after: Any, kept: bool
) -> None:
    """Groups, operators in them, and what runs in a forward pass."""
    one, other = Version(*before, 0), Version(*after, 0)
    assert other.better_than(one) is kept
    assert not replace(other, fallbacks=1).better_than(one)
    less = TriedFix(ChangeKind.KNOB, "x", (), (), ChangeOutcome.NO_GAIN, one, other)
    if not kept and after == (0, 0, 3):
        assert why_not(less).startswith(
            "runs fewer operators, and fuses none in addition: 0 groups"
        )


def versions(measure: Any) -> Any:
    """What makes and measures the programs of a search; no file stands behind
    them."""
    return alone(
        measure=measure,
        lines_changed=lambda bundle: (),
        begin=lambda expected: None,
    )


def alone(**parts: Any) -> Any:
    """Versions that run one after the other."""
    return SimpleNamespace(side_by_side=False, end_ahead=lambda: None, **parts)


def searched(monkeypatch: pytest.MonkeyPatch, speeds: list[Ratio | None]) -> Any:
    """A search that kept as many changes as there are speeds after the first."""
    monkeypatch.setattr(fix_search, "speeds_of", lambda versions, ahead: speeds)
    version = Version(1, 2, 3, 0)
    search: Any = fix_search.FixSearch(
        alone(), (version, SimpleNamespace()), 9, True, lambda line: None
    )
    for row in range(len(speeds) - 1):
        made = Change(
            ChangeKind.RECIPE,
            str(row),
            (TextEdit(Path("m.py"), row, row, str(row)),),
        )
        search._steps.append(
            fix_search.KeptChange(
                ChangeBundle((made,)), (version, SimpleNamespace()), row
            )
        )
        search.tried.append(
            TriedFix(
                ChangeKind.RECIPE,
                str(row),
                (),
                (),
                ChangeOutcome.KEPT,
                version,
                version,
            )
        )
    return search


def test_what_is_slower_is_taken_back_to_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = searched(
        monkeypatch, [None, Ratio(1.2, 1.1, 1.3), Ratio(0.5, 0.4, 0.6)]
    )
    assert search.time() == Ratio(1.2, 1.1, 1.3)
    assert [one.outcome for one in search.tried] == [
        ChangeOutcome.KEPT,
        ChangeOutcome.SLOWER,
    ]
    assert [edit.text for edit in search.edits] == ["0"]
    search = searched(monkeypatch, [None, Ratio(0.5, 0.4, 0.6)])
    assert search.time() is None and search.edits == ()
    search = searched(
        monkeypatch, [None, Ratio(0.9, 0.8, 1.1), Ratio(1.0, 0.9, 1.1)]
    )
    search.time()
    assert len(search._steps) == 3 and all(
        one.outcome is ChangeOutcome.KEPT for one in search.tried
    )


def test_what_seems_slower_once_is_timed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """resnet18 in training on an H100, bound by the host: 0.92 (0.85 to 0.98) one
    time, no difference another time."""
    search = searched(monkeypatch, [None, Ratio(0.92, 0.85, 0.98)])
    turns = iter(([None, Ratio(0.92, 0.85, 0.98)], [None, Ratio(0.99, 0.93, 1.04)]))
    monkeypatch.setattr(
        fix_search, "speeds_of", lambda versions, ahead: next(turns)
    )
    assert search.time() == Ratio(0.99, 0.93, 1.04)
    assert search.tried[0].outcome is ChangeOutcome.KEPT and search.tried[
        0
    ].speed == Ratio(0.99, 0.93, 1.04)
    assert not list(turns)


@pytest.mark.parametrize("room", [1, 2])
def test_a_change_of_source_code_warms_up_while_it_is_run(room: int) -> None:
    """Where there are cores for the unchanged program and it; a change that does
    not help is not timed."""
    order: list[str] = []
    requests = {
        name: SimpleNamespace(name=name)
        for name in ("unchanged", "useful", "useless", "--fuser nnc")
    }

    class Ahead:
        def begin(self, request: Any, fuser: str) -> None:
            if request.name not in order:
                order.append(request.name)

        def end_others(self, wanted: Any) -> None:
            order[:] = [
                name for name in order if name in {one.name for one in wanted}
            ]

    def request_of(bundle: ChangeBundle, name: str) -> Any:
        return requests[bundle.changes[-1].title]

    def measure(bundle: ChangeBundle, name: str) -> tuple[Version, Any]:
        request = request_of(bundle, name)
        began.append((request.name, tuple(order)))
        launches = 5 if bundle.changes[0].title == "useful" else 9
        return Version(1, 2, launches, 0, timeable="nvfuser"), request

    began: list[tuple[str, tuple[str, ...]]] = []
    made: Any = versions(measure)
    made.room, made.request_of = room, request_of
    unchanged = Version(1, 2, 9, 0, timeable="nvfuser"), requests["unchanged"]
    search: Any = fix_search.FixSearch(made, unchanged, 9, True, lambda line: None)
    search._ahead = Ahead()
    kinds = {
        "useful": ChangeKind.RECIPE,
        "useless": ChangeKind.OUT_OF_PLACE,
        "--fuser nnc": ChangeKind.FUSER,
    }
    search.run(
        [ChangeBundle((Change(kind, title),)) for title, kind in kinds.items()]
    )
    ahead = room > 1
    assert dict(began) == {
        "useful": ("unchanged", "useful") if ahead else (),
        "useless": ("unchanged", "useful", *(["useless"] if ahead else [])),
        "--fuser nnc": ("unchanged", "useful"),
    }


def second_round(launches: dict[str, int], kinds: dict[str, Any]) -> Any:
    """A search among changes named by a letter; how many kernels each set of them
    has."""

    def measure(bundle: ChangeBundle, name: str) -> tuple[Version, Any]:
        names = "".join(sorted(edit.text for edit in bundle.edits)) + (
            bundle.setting.fuser or ""
        )
        count = launches.get(names, 9)
        return Version(
            1, 20 - count, abs(count), 0, problem="no" if count < 0 else None
        ), SimpleNamespace()

    asked = Version(1, 11, 9, 0), SimpleNamespace()
    search: Any = fix_search.FixSearch(
        versions(measure), asked, 24, False, lambda line: None
    )
    bundles = []
    for place, (name, kind) in enumerate(kinds.items()):
        changes = [
            Change(
                kind,
                one,
                (
                    TextEdit(
                        Path("m.py"), place * 9 + number, place * 9 + number, one
                    ),
                ),
            )
            for number, one in enumerate(name)
        ]
        bundles.append(ChangeBundle(tuple(changes), name))
    search.run(bundles)
    return search


SOME, OTHER, MOVED = ChangeKind.OUT_OF_PLACE, ChangeKind.SPLIT, ChangeKind.MOVE


@pytest.mark.parametrize(
    ("launches", "names", "kept", "runs"),
    [
        ({"ab": 5}, "a b", "ab", 1),  # neither helps alone
        ({"abc": 5, "ac": 5}, "a b c", "ac", 3),  # and one of them is not needed
        (
            {"abc": -1, "ab": 9, "bc": 4},
            "a b c",
            "bc",
            3,
        ),  # all together fail, two do not
        ({}, "a b c", "", 1),  # together they change nothing: no pair is tried
        (
            {"ab": 11, "b": 7},
            "ab c",
            "b",
            2,
        ),  # two lines of one kind, of which one does harm
        ({"b": 7}, "a b", "b", 0),
    ],
)
def test_changes_that_need_each_other_are_found(
    launches: dict[str, int], names: str, kept: str, runs: int
) -> None:
    search = second_round(launches, dict(zip(names.split(), (SOME, OTHER, MOVED))))
    assert "".join(sorted(edit.text for edit in search.edits)) == kept
    assert search.together_tries == runs <= MOST_TOGETHER
    rows = [one for one in search.tried if one.outcome is ChangeOutcome.KEPT]
    assert len(rows) == bool(kept) and len(search._steps) == 1 + bool(kept)
    if runs == 3 and kept == "ac":
        assert rows[0].change == "a; together with c"


def test_the_second_round_is_bounded() -> None:
    launches = {"abcdefgh": -1}
    search = second_round(launches, dict(zip("abcdefgh", [SOME] * 8)))
    assert (
        search.together_tries == MOST_TOGETHER
        and search.edits == ()
        and len(search.tried) == 8
    )
    told = "\n".join(lines(replace(found(), together_tries=8)))
    assert "line by line and together: 8 runs, at most 8" in told


@pytest.mark.parametrize(
    ("kind", "by_several"),
    [
        (ChangeKind.RECIPE, True),
        (ChangeKind.MOVE_VIEW, True),
        (ChangeKind.FUSER, True),
        (SOME, False),
    ],
)
def test_more_operators_in_groups_are_no_gain_of_what_is_replaced_by_several(
    kind: ChangeKind, by_several: bool
) -> None:
    """As many kernels, and one operator more in a group."""
    requested = Version(1, 2, 9, 0), SimpleNamespace()
    measure = lambda bundle, name: (Version(1, 3, 9, 0), None)  # noqa: E731
    search: Any = fix_search.FixSearch(
        versions(measure),
        requested,
        9,
        False,
        lambda line: None,
    )
    search.run([ChangeBundle((Change(kind, "a change"),))])
    assert search.tried[0].outcome is (
        ChangeOutcome.NO_GAIN if by_several else ChangeOutcome.KEPT
    )


def test_settings_of_changes_add_up() -> None:
    first = Change(
        ChangeKind.KNOB,
        "a knob",
        setting=Setting(knobs={"guard": "off", "single_node": "on"}),
    )
    other = Change(
        ChangeKind.FREEZE,
        "frozen",
        setting=Setting("nnc", knobs={"guard": "on"}, flags=("--freeze",)),
    )
    both = ChangeBundle((first, other)).setting
    assert both == Setting(
        "nnc", knobs={"guard": "on", "single_node": "on"}, flags=("--freeze",)
    )


def test_another_fuser_is_a_setting_and_no_edit() -> None:
    asked = Version(1, 2, 9, 0), SimpleNamespace()

    def measure(bundle: ChangeBundle, name: str) -> tuple[Version, None]:
        return Version(1, 2, 9 if bundle.setting.fuser is None else 3, 0), None

    search: Any = fix_search.FixSearch(
        versions(measure), asked, 9, False, lambda line: None
    )
    other = Change(ChangeKind.FUSER, "--fuser nnc", setting=Setting(fuser="nnc"))
    search.run([ChangeBundle((other,))])
    assert search.settings == ("--fuser nnc",) and search.edits == ()
    assert "1 change (with --fuser nnc): " in verdict(
        replace(found(), settings=search.settings)
    )


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("from typing import Optional\n", ""),
        ("from typing import Optional  # why\n", None),
        ("from typing import List, Optional\n", "from typing import List\n"),
        ("from typing import Optional, List\n", "from typing import List\n"),
        (
            "from typing import (\n    List as L,\n    Optional,\n)\n",
            "from typing import (\n    List as L,\n)\n",
        ),
        ("from typing import Optional as O\n", None),
        ("from mine import Optional\n", None),
        ("import typing\n", None),
    ],
)
def test_an_import_that_nothing_reads_any_more_goes(
    line: str, after: str | None
) -> None:
    text = f"{line}def f(x: Optional[int]): pass\n"
    file = parsed(text)
    place = text.index("Optional[int]")
    edit = TextEdit(Path("m.py"), place, place + len("Optional[int]"), "int")
    assert changed_text(text, without_unused(file, (edit,))) == (
        after if after is not None else line
    ) + ("def f(x: int): pass\n")
    both = parsed(text + "def g(x: 'Optional[str]'): pass\n")
    assert without_unused(both, (edit,)) == (edit,)


@pytest.mark.parametrize("behind", ["y = 1\n", "\ny = 1\n", "\n\ny = 1\n"])
def test_two_blank_lines_stand_around_what_is_defined(behind: str) -> None:
    file = parsed(f"import torch\n{behind}")
    edits = [
        *defined(file, ["def a():", "    pass"], -6),
        *defined(file, ["def b():", "    pass"], -5),
    ]
    after = changed_text(file.source.text, edits)
    assert (
        after
        == "import torch\n\n\ndef a():\n    pass\n\n\ndef b():\n    pass\n\n\ny = 1\n"
    )


def test_no_second_blank_line_is_left_where_an_import_goes() -> None:
    text = "# why\n\nfrom typing import Optional\n\nx: Optional[int]\n"
    place = text.index("Optional[int]")
    edit = TextEdit(Path("m.py"), place, place + len("Optional[int]"), "int")
    assert (
        changed_text(text, without_unused(parsed(text), (edit,)))
        == "# why\n\nx: int\n"
    )


def found() -> Fixes:
    before, after = (
        Version(0, 0, 3, 0),
        Version(1, 2, 1, 0, wrong=("output 0 differs",), unfused=frozenset("a")),
    )
    speed = Ratio(1.2, 1.1, 1.3)
    tried = (
        TriedFix(
            ChangeKind.OUT_OF_PLACE,
            "x | y",
            ("/a/m.py:3",),
            ("a note",),
            ChangeOutcome.KEPT,
            before,
            after,
            speed,
        ),
        TriedFix(
            ChangeKind.FREEZE,
            "model frozen",
            (),
            (),
            ChangeOutcome.WRONG,
            after,
            after,
        ),
    )
    diff = '--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-"""```"""\n+x\n'
    return Fixes(
        "m.py",
        before,
        after,
        tried,
        diff,
        ("zoo.py:1 is a package's",),
        speed,
        fuser="nnc",
    )


def test_what_was_tried_as_json_is_as_its_schema_says() -> None:
    data = json.loads(as_json(found()))
    validate(data, json.loads((ROOT / "docs" / "fix.schema.json").read_text()))
    assert data["schema"] == "fusiondoc.fix/1" and next(iter(data)) == "schema"
    assert [(one["kind"], one["outcome"]) for one in data["tried"]] == [
        ("out of place", "kept"),
        ("freeze", "computes something else"),
    ]
    assert "unfused" not in data["together"] and data["speed"]["value"] == 1.2


def test_no_word_and_no_command_is_broken_at_80_columns() -> None:
    long = "compared: outputs, gradients and arguments after the call, unfused, from one seed; and-fused with it"
    shown = within(long, 80)
    assert (
        len(shown) == 2
        and " ".join(one.strip() for one in shown) == long
        and shown[1].startswith("  ")
    )
    command = "    fusiondoc env --export " + "x" * 90
    assert within(command, 80) == [command] and within("short", 80) == ["short"]
    assert all(
        one.startswith("    ") and len(one) <= 80
        for one in within("    " + "a note " * 30, 80)
    )


def test_what_was_tried_as_markdown() -> None:
    text = as_markdown(found(), "/a/")
    assert (
        "| x \\| y | m.py:3 | 0 → 1 | 0 → 2 | 3 → 1 | 1\\.20 times as fast" in text
    )
    assert "- model frozen: computes something else: output 0 differs" in text
    assert "````diff\n--- a/m.py" in text and text.endswith("+x\n````\n")


@pytest.mark.parametrize("name", ["fixes.html", "fixes", "nowhere/fixes.json"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    name: str, fusiondoc: Any, tmp_path: Path
) -> None:
    done = fusiondoc("fix", "none.py", "-o", name, cwd=tmp_path)
    assert (
        done.returncode == 2
        and name.split(".")[0] in done.stderr
        and "none.py" not in done.stderr
    )


def test_a_run_that_was_begun_stays_expected_until_it_is_measured() -> None:
    """The first change helps, the two settings do not, alone and together: nothing
    begins twice."""
    events: list[str] = []

    def name_of(bundle: ChangeBundle) -> str:
        return "".join(sorted(edit.text for edit in bundle.edits))

    def begin(expected: Any) -> None:
        events.append(
            "begun " + " ".join(name_of(bundle) for bundle, _ in expected)
        )

    def measure(bundle: ChangeBundle, name: str) -> tuple[Version, Any]:
        events.append(name_of(bundle))
        return Version(1, 15, 5, 0), SimpleNamespace()

    made: Any = alone(measure=measure, lines_changed=lambda bundle: (), begin=begin)
    asked = Version(1, 11, 9, 0), SimpleNamespace()
    search: Any = fix_search.FixSearch(made, asked, 24, False, lambda line: None)
    kinds = {
        "a": ChangeKind.OUT_OF_PLACE,
        "k": ChangeKind.KNOB,
        "l": ChangeKind.KNOB,
    }
    search.run(
        [
            ChangeBundle(
                (Change(kind, name, (TextEdit(Path("m.py"), at, at, name),)),), name
            )
            for at, (name, kind) in enumerate(kinds.items())
        ]
    )
    assert events == [
        *("begun a ak al akl", "a"),
        *("begun ak al akl", "ak"),
        *("begun al akl", "al"),
        "akl",
    ]
