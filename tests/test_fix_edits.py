"""Changes of ``fusiondoc fix`` as text: what is rewritten at a line, what must be left alone, and that
nothing else of a file changes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from command_line import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

pytest.importorskip("libcst")

from fusiondoc.diagnosis.recipes import RECIPES
from fusiondoc.errors import UsageError
from fusiondoc.fixes import constants, in_place, model_setup, operands, order, recipes_in_code
from fusiondoc.fixes import settings as fix_settings
from fusiondoc.fixes.edits import (
    Edit,
    Proposal,
    SourceText,
    changed_text,
    overlapping,
    read_text,
    unified_diff,
)
from fusiondoc.fixes.fixable import Site
from fusiondoc.fixes.model_setup import Place, _in_place_off, place_of_model
from fusiondoc.fixes.syntax import ParsedFile
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.fixes import Fixes, Outcome, TriedFix, Version
from fusiondoc.model.runs import Verification
from fusiondoc.reports.fix_formats import as_json, as_markdown
from fusiondoc.workflows import fix, fix_apply
from fusiondoc.workflows.fix import ChangedFile, as_tries
from fusiondoc.workflows.fix_apply import apply, uncommitted
from fusiondoc.workflows.fix_runs import Rounding

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"


def parsed(text: str) -> ParsedFile:
    return ParsedFile(SourceText(Path("m.py"), text, "utf-8", False))


def site(text: str, op: str, line: int, reason: str = "") -> Site:
    row: Any = SimpleNamespace(op=op, reason=SimpleNamespace(text=reason))
    return Site(row, parsed(text), line)


def out_of_place(body: str, op: str, line: int = 2) -> str:
    """The body of a function after the change at one of its lines."""
    text = HEAD + body
    edits = in_place._edits_at(site(text, f"aten::{op}", HEAD.count("\n") + line))
    return changed_text(text, edits)[len(HEAD) :]


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        ("x += y  # sum", "add_", "x = x + y  # sum"),
        ("x -= y - 1", "sub_", "x = x - (y - 1)"),
        ("x *= (y - 1)", "mul_", "x = x * (y - 1)"),
        ("x += y * 2", "add_", "x = x + y * 2"),
        ("x /= -y", "div_", "x = x / -y"),
        ("x +=(  y )", "add_", "x = x +(  y )"),
        ("x.add_(y, alpha=2)", "add_", "x = x.add(y, alpha=2)"),
        ("x.mul_(y).sub_(1.0)", "sub_", "x = x.mul(y).sub(1.0)"),
        ("return (x * 2).add_(1)", "add_", "return (x * 2).add(1)"),
        ("x = x.relu_()", "relu_", "x = x.relu()"),
        ("x = F.relu(x, inplace=True)", "relu_", "x = F.relu(x, inplace=False)"),
        ("x = F.relu(x, True)", "relu_", "x = F.relu(x, False)"),
        ("F.dropout(x, 0.1, True, True)", "dropout_", "x = F.dropout(x, 0.1, True, False)"),
        ("torch.relu_(x); x += 1", "relu_", "x = torch.relu(x); x += 1"),
        ("x &= y", "__iand__", "x = x & y"),
        ("x **= 2", "pow_", "x = x ** 2"),
        ("x.zero_()", "zero_", "x = torch.zeros_like(x)"),
        ("x.fill_(0.5)", "fill_", "x = torch.full_like(x, 0.5)"),
    ],
)
def test_an_operator_in_place_is_written_out_of_place(line: str, op: str, after: str) -> None:
    body = "def f(x, y):\n\t{}\n\treturn x\n"
    assert out_of_place(body.format(line), op) == body.format(after)


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("self.state += y", "add_"),  # state that outlives the call
        ("self.state.add_(y)", "add_"),
        ("x[0] += y", "add_"),  # a part of a tensor
        ("x[0].add_(y)", "add_"),
        ("z = x.add_(y)", "add_"),  # x is read below, and would lack the sum
        ("x = torch.relu(x)", "relu_"),
        ("x += y", "mul_"),  # another operator
        ("x = x + y", "add_"),
        ("x = F.relu(x, inplace=False)", "relu_"),
        ("x = self.relu(x)", "relu_"),
        ("global x; x += y", "add_"),
        ("x.copy_(y)", "copy_"),  # there is no x.copy
        ("y = x.fill_(1)", "fill_"),
        ("x.uniform_(0, 1)", "uniform_"),
    ],
)
def test_what_others_may_see_is_left_alone(line: str, op: str) -> None:
    body = f"def f(self, x, y):\n    {line}\n    return x\n"
    assert out_of_place(body, op) == body


def test_a_name_read_again_in_a_loop_is_left_alone() -> None:
    body = "def f(x):\n    for _ in range(3):\n        y = x * 2\n        z = x.add_(1)\n    return y + z\n"
    assert out_of_place(body, "add_", 4) == body


def test_flags_of_constructors() -> None:
    text = HEAD + (
        "from functools import partial\n"
        "a = nn.ReLU(inplace=True)\nb = nn.ReLU(True)\nc = torch.nn.Dropout(0.1, True)\n"
        "d = partial(nn.SiLU, inplace=True)\ne = nn.ReLU(inplace=False)\nf = nn.Linear(True, True)\n"
        "g = mine.ReLU(inplace=True)\nh = nn.ReLU()\n"
    )
    program: Any = SimpleNamespace(files=[parsed(text)])
    found = list(in_place._constructors(program, frozenset()))
    after = changed_text(text, [edit for one in found for edit in one.edits])
    changed = [new for old, new in zip(text.split("\n"), after.split("\n")) if old != new]
    assert changed == [
        "a = nn.ReLU(inplace=False)",
        "b = nn.ReLU(False)",
        "c = torch.nn.Dropout(0.1, False)",
        "d = partial(nn.SiLU, inplace=False)",
    ]


def written(line: str, op: str) -> str | None:
    text = HEAD + f"\ndef f(x, y, z):\n    {line}\n"
    at = site(text, f"aten::{op}", text.count("\n"))
    for recipe in RECIPES:
        if f"aten::{op}" in recipe.replaces and recipes_in_code._may_apply(recipe):
            found = recipes_in_code._at(at, recipe)
            if found is not None:
                return changed_text(text, found.edits)[len(HEAD) :].lstrip("\n")
    return None


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        ("return F.hardswish(x) * 2", "hardswish", "return (x * torch.clamp(x + 3, 0, 6) / 6) * 2"),
        ("x = F.hardswish(x, inplace=True)", "hardswish", "x = x * torch.clamp(x + 3, 0, 6) / 6"),
        ("x = F.leaky_relu(x, 0.2)", "leaky_relu", "x = torch.where(x > 0, x, 0.2 * x)"),
        ("x = F.leaky_relu(x)", "leaky_relu", "x = torch.where(x > 0, x, 0.01 * x)"),
        ("x = F.leaky_relu(x, negative_slope=0.3)", "leaky_relu", "x = torch.where(x > 0, x, 0.3 * x)"),
        ("x = x.square() + 1", "square", "x = (x * x) + 1"),
        ("x = 3 - x", "rsub", "x = -(x - 3)"),
        ("x = y.clamp_max(2) + 1", "clamp_max", "x = torch.clamp(y, max=2) + 1"),
        ("x = torch.addcmul(x, y, z, value=0.3)", "addcmul", "x = x + 0.3 * y * z"),
        ("x = F.hardtanh(x, -2, 2.5)", "hardtanh", "x = torch.clamp(x, -2, 2.5)"),
    ],
)
def test_a_recipe_at_a_line(line: str, op: str, after: str) -> None:
    assert written(line, op) == f"def f(x, y, z):\n    {after}\n"


def test_what_a_recipe_reads_twice_is_computed_once() -> None:
    after = written("return F.hardswish(x + y)", "hardswish")
    assert after is not None
    assert "def fusible_hardswish(x):\n    return x * torch.clamp(x + 3, 0, 6) / 6\n" in after
    assert after.endswith("    return fusible_hardswish(x + y)\n")


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("x = F.softplus(x, 2.0)", "softplus"),  # the recipe is for beta=1
        ("x = mine.hardswish(x)", "square"),
        ("x = torch.pow(x, y)", "pow"),  # needs x > 0
        ("x = torch.relu(x)", "hardswish"),
        ("x = F.gelu(x, approximate='none')", "square"),
    ],
)
def test_a_recipe_that_does_not_fit_is_not_offered(line: str, op: str) -> None:
    assert written(line, op) is None


# -- the place where a model is made ------------------------------------------------------------------------


def attributes_off(text: str, name: str | None = None, call: str | None = None) -> str | None:
    target: Any = SimpleNamespace(name=name, call=call)
    program: Any = SimpleNamespace(target_file=parsed(text), target=target)
    place = place_of_model(program)
    return None if place is None else changed_text(text, _in_place_off(place, frozenset()).edits)


LOOP = """\
for module in {0}.modules():
    if getattr(module, "inplace", False):
        module.inplace = False
"""


def test_the_lines_come_after_the_model_is_made() -> None:
    text = "from zoo import net\nmodel = net().eval()\nmodel.cuda()\ninputs = (1,)\n"
    before, rest = text[: text.index("inputs")], "inputs = (1,)\n"
    assert attributes_off(text) == before + LOOP.format("model") + rest
    assert attributes_off("from zoo import model") == "from zoo import model\n" + LOOP.format("model")


def test_the_lines_come_before_it_is_scripted() -> None:
    text = "import torch\nnet = N()\nmodel = torch.jit.script(net)\n"
    assert attributes_off(text) == text.replace("model =", LOOP.format("net") + "model =")
    text = "import torch\nmodel = torch.jit.script(N(3))\n"
    after = "import torch\nnet = N(3)\n" + LOOP.format("net") + "model = torch.jit.script(net)\n"
    assert attributes_off(text) == after


def test_in_a_function_that_returns_the_model_and_in_a_class() -> None:
    text = "def make(n):\r\n\treturn Net(n)  # new\r\n"
    after = attributes_off(text, "make", "(3)")
    assert after is not None and after.startswith("def make(n):\r\n\tmodel = Net(n)\r\n\tfor module in model")
    assert after.endswith("\t\t\tmodule.inplace = False\r\n\treturn model  # new\r\n")
    assert "\n" not in after.replace("\r\n", "")
    text = "class Net(M):\n  def __init__(self):\n    super().__init__()\n"
    after = attributes_off(text, "Net", "()")
    assert after is not None and after.startswith(text + "    for module in self.modules():\n      if ")


def test_no_line_of_the_users_makes_it() -> None:
    assert attributes_off("inputs = 1\n") is None
    assert (
        attributes_off("def make(a):\n    if a:\n        return A()\n    return B()\n", "make", "(1)") is None
    )


# -- only the meant tokens ----------------------------------------------------------------------------------

NAMES = st.sampled_from(["x", "tensor", "größe", "_h2"])
COMMENTS = st.sampled_from(["", "  # x += 1, and F.relu(x, inplace=True)", "\t#é", "   "])
VALUES = st.sampled_from(["y", "y*2", "y - 1", "(y\n-1)", "g(y, [1,\n  2])", "y if c else 1", "- y"])
LINES = st.sampled_from(["+=", "-=", "*=", "/="])
OPS = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div"}


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
    name: str, value: str, sign: str, comment: str, indent: str, end: str, data: st.DataObject
) -> None:
    before = data.draw(
        st.sampled_from(["", "#!/usr/bin/python\n", '"""A file.\n\n\ttabs"""\n', "x=1;y = 2 \n"])
    )
    deep = indent * data.draw(st.integers(1, 3))
    text = (
        f"{before}@deco( a,\n  b )\ndef outer(y ):{comment}\n{indent}def inner(y, {name}):  \n{indent}{deep}"
        f"{name}  {sign} {value}{comment}\n{indent}{deep}return  {name}\n\n{indent}return inner\n"
    ).replace("\n", end)
    line = text[: text.index(f"{name}  {sign} ")].count("\n") + 1
    edits = in_place._edits_at(site(text, f"aten::{OPS[sign]}_", line))
    after = changed_text(text, edits)
    assert edits
    # What was put in, taken out again, leaves the file as it was, byte for byte.
    middle = f"= {name} {sign[0]}"
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
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.text("ab\r\n", max_size=3)), max_size=4))
def test_edits_change_their_places_alone(found: list[tuple[int, int, str]]) -> None:
    text = "".join(chr(97 + n) for n in range(26)) + "0123456789"
    edits = [Edit(Path("m.py"), start, start + size, new) for start, size, new in found]
    if overlapping(edits):
        return
    after = changed_text(text, edits)
    kept = [c for n, c in enumerate(text) if not any(one.start <= n < one.end for one in edits)]
    added = sum(len(one.text) for one in dict.fromkeys(edits))
    assert len(after) == len(kept) + added
    assert [c for c in after if c in kept and c not in "ab\r\n"] == [c for c in kept if c not in "ab\r\n"]


STATEMENTS = (
    ("add_", "{0} += y*2", "{0} = {0} + y*2"),
    ("mul_", "{0} *= y -1", "{0} = {0} * (y -1)"),
    ("relu_", "{0} = F.relu( {0} , inplace = True )", "{0} = F.relu( {0} , inplace = False )"),
    ("sub_", "{0} . sub_( # by one\n 1 )", "{0} = {0} . sub( # by one\n 1 )"),
    ("hardswish", "{0} = F.hardswish({0})", "{0} = {0} * torch.clamp({0} + 3, 0, 6) / 6"),
    ("square", "{0} = y+torch.square( {0} )", "{0} = y+({0} * {0})"),
    ("view", "{0} = torch.tanh({0}.view(4, -1 ))", "{0} = torch.tanh({0}).view(4, -1 )"),
    ("item", "{0} = {0}*s . item( )", "{0} = {0}*s"),
    ("to", "{0} = {0} .to( y.dtype )", "{0} = {0} .type_as(y)"),
    ("tensor", "{0} = {0}-torch.tensor(1.5, device=y.device)", "{0} = {0}-1.5"),
    (None, "{0} = g({0}, '''x += 1\n\tF.relu(x, inplace=True)''')", None),
    (None, "{0} = f'{{{0}.view(4)}}' if ({0}:=y) is None else {0}", None),
)
"""Operator, a statement that makes it, and the statement as it is to be."""


def all_edits(file: ParsedFile, op: str, line: int) -> tuple[Edit, ...]:
    """What the families propose for one operator at a line."""
    row: Any = SimpleNamespace(op=f"aten::{op}", reason=SimpleNamespace(text="", code=""), source=None)
    at = Site(row, file, line)
    program: Any = SimpleNamespace(sites=[at], idle_sites=[], files=[], options=SimpleNamespace(trace=True))
    if op in ("hardswish", "square"):
        recipe = next(one for one in RECIPES if f"aten::{op}" in one.replaces)
        found = recipes_in_code._at(at, recipe)
        return found.edits if found is not None else ()
    if op == "item":
        program.files = [file]
    proposals = [*order.propose(program)] if op == "view" else [*operands.propose(program)]
    return (*in_place._edits_at(at), *(edit for one in proposals for edit in one.edits))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STATEMENTS), NAMES, COMMENTS), min_size=1, max_size=6),
    st.sampled_from(["    ", "\t", "   "]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]),
    st.booleans(),
)
def test_apply_changes_the_meant_tokens_and_no_byte_more(
    lines: list[Any], indent: str, end: str, encoding: str, ends: bool
) -> None:
    head = f"# -*- coding: {encoding.replace('-sig', '')} -*-\n{HEAD}\n@deco( 1,\n  b = 2 )\nclass A( B ):\n"
    before = f"{head}{indent}'''größe'''\n{indent}def m(self, y, s):  # x += 1\n{indent * 2}@deco\n"
    before += f"{indent * 2}def inner(y, s, *a, **k) :\n"
    wanted, sites = before, []
    for (op, old, new), name, comment in lines:
        if op is not None:
            sites.append((op, before.count("\n") + 1))
        before += f"{indent * 3}{old.format(name)}{comment}\n"
        wanted += f"{indent * 3}{(new or old).format(name)}{comment}\n"
    tail = f"\n{indent * 3}return y\n{indent * 2}return inner;  # done" + "\n" * ends
    before, wanted = ((text + tail).replace("\n", end) for text in (before, wanted))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.py"
        path.write_bytes(before.encode(encoding))
        file = ParsedFile(read_text(path))
        edits = tuple(dict.fromkeys(edit for op, line in sites for edit in all_edits(file, op, line)))
        assert not overlapping(edits)
        apply([ChangedFile(file.source, changed_text(file.source.text, edits), edits)], path.parent, True)
        assert path.read_bytes() == wanted.encode(encoding)


def test_files_keep_encoding_and_mark(tmp_path: Path) -> None:
    latin = tmp_path / "latin.py"
    latin.write_bytes("# coding: latin-1\r\nx = 'é'\r\n".encode("latin-1"))
    source = read_text(latin)
    assert source.bytes_of(source.text) == latin.read_bytes()
    marked = tmp_path / "marked.py"
    marked.write_bytes(b"\xef\xbb\xbfx = 1\n")
    source = read_text(marked)
    assert source.text == "x = 1\n" and source.bytes_of(source.text) == marked.read_bytes()
    latin.write_bytes(b"x = '\xe9'\n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_text(latin)


def test_a_diff_that_patch_applies(tmp_path: Path) -> None:
    before, after = "a\r\nb\r\nc", "a\r\nB\r\nc"
    assert unified_diff(before, after, "m.py") == (
        "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\n\\ No newline at end of file\n"
    )


# -- --apply ------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *arguments], cwd=str(folder), check=True, capture_output=True)


def changed_file(path: Path, old: str, new: str) -> ChangedFile:
    source = read_text(path)
    place = source.text.index(old)
    edits = (Edit(path, place, place + len(old), new),)
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
    """A link that leads nowhere yet is a name that is taken: a copy would be written where it leads."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("x = 1\n")
    (project / "a.py.before-fix").symlink_to(tmp_path / "elsewhere")
    one = changed_file(project / "a.py", "1", "2")
    assert apply([one], project, force=True) == [(project / "a.py", project / "a.py.before-fix-2")]
    assert not (tmp_path / "elsewhere").exists()
    assert (project / "a.py.before-fix-2").read_text() == "x = 1\n"


@pytest.mark.parametrize("error", [OSError(30, "Read-only file system"), KeyboardInterrupt(), SystemExit(1)])
def test_all_files_are_written_or_none(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    files = [changed_file(tmp_path / name, "1", "2") for name in ("a.py", "b.py")]
    write = fix_apply.write_whole

    def fails_at_b(path: Path, data: bytes) -> None:
        if path.name == "b.py":
            raise error
        write(path, data)

    monkeypatch.setattr(fix_apply, "write_whole", fails_at_b)
    expected = UsageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="no file was changed" if isinstance(error, OSError) else None):
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
    with pytest.raises(UsageError, match=r"not committed on the lines that would change \(2\)") as error:
        apply([changed_file(path, "20", "30")], tmp_path, force=False)
    assert "--force" in str(error.value.hint)
    assert path.read_text() == "a = 1\nb = 20\nc = 4\n"
    apply([changed_file(path, "20", "30")], tmp_path, force=True)
    assert path.read_text() == "a = 1\nb = 30\nc = 4\n"


def test_apply_refuses_files_outside_the_project_or_changed_meanwhile(tmp_path: Path) -> None:
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


def test_a_changed_text_is_imported_under_the_files_own_path(tmp_path: Path) -> None:
    """Relative imports, ``__file__`` and source lines work as ever, and no ``.pyc`` of it is kept."""
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
        "from fusiondoc.probe import overlay\n"
        "overlay.install({sys.argv[2] + '/pack/one.py': sys.argv[3]})\n"
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


def test_without_libcst_the_next_step_is_said(monkeypatch: pytest.MonkeyPatch, fusiondoc: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    done = fusiondoc("fix", "model.py")
    assert done.returncode == 4 and "pip install 'fusiondoc[fix]'" in done.stderr


def test_the_place_keeps_the_style_of_the_file() -> None:
    file = parsed("if 1:\n\tx = 1\n")
    assert Place(file, "m", 0).insert(["for a in b:", "    pass"]).text == "for a in b:\n\tpass\n"


# -- constants, numbers, settings ---------------------------------------------------------------------------


def proposed(text: str, line: int, reason: str, op: str = "aten::softmax") -> str:
    """The text after everything that constants.propose finds at a line."""
    row: Any = SimpleNamespace(op=op, reason=SimpleNamespace(text=reason))
    file = parsed(text)
    program: Any = SimpleNamespace(sites=[Site(row, file, line)], files=[file])
    return changed_text(text, [edit for one in constants.propose(program) for edit in one.edits])


CLASS = """\
class Net(nn.Module):
    '''A net.'''
    def __init__(self, dim):
        self.dim = dim
        self.other = make()
    def forward(self, x):
        return torch.softmax(x, self.dim)
"""


def test_an_attribute_that_a_fuser_must_know_is_declared_constant() -> None:
    after = proposed(CLASS, 7, "its `dim` is no constant")
    wanted = CLASS.replace("net.'''\n", "net.'''\n    __constants__ = [\"dim\"]\n\n")
    assert after == wanted
    listed = CLASS.replace("'''A net.'''", "__constants__ = ['eps']")
    assert proposed(listed, 7, "its `dim` is no constant") == listed.replace("['eps']", "['eps', \"dim\"]")
    branch = CLASS.replace("return torch", "if self.dim > 0: x = x + 1\n        return torch")
    assert '__constants__ = ["dim"]' in proposed(branch, 7, "control flow", "prim::If")


@pytest.mark.parametrize(
    "change",
    [
        ("A net.'''", "A net.'''\n    dim: Final[int]"),  # it is one
        ("'''A net.'''", "__constants__ = ('dim',)"),
        ("x, self.dim)", "x, 1)"),
        ("    def forward", "    def other(self): self.dim = 3\n    def forward"),  # it changes
        ("self.dim = dim", "self.dim = make(dim)"),  # who knows what it is
    ],
)
def test_what_is_no_plain_value_or_changes_is_not_declared(change: tuple[str, str]) -> None:
    text = CLASS.replace(*change)
    line = text[: text.index("torch.softmax")].count("\n") + 1
    assert proposed(text, line, "its `dim` is no constant") == text


def test_a_default_in_the_place_of_its_argument() -> None:
    text = "def f(x, dim: int = -1, n: int = 2):\n    return torch.softmax(x, dim)\n"
    assert proposed(text, 2, "its `dim` is no constant") == text.replace("x, dim)", "x, -1)")
    assert proposed(text, 2, "it is alone") == text
    required = text.replace(" = -1, n: int = 2", "")
    assert proposed(required, 2, "its `dim` is no constant") == required


def test_a_number_stays_a_tensor() -> None:
    text = "def f(x, s):\n    y = x * s.item()\n    for _ in range(s.item()): y = y + 1\n    return y\n"
    text += "z = a * b.item()\n"
    text += "def g(x, s, n: int):\n    return x * float(s) + x * float(n)\n"
    found = [edit for one in operands._items(parsed(text)) for edit in one.edits]
    assert changed_text(text, found) == text.replace("x * s.item()", "x * s").replace("float(s)", "s")


# -- what a difference is worth, and what is timed ----------------------------------------------------------


def compared(
    what: str, off: float, same: bool = False, phase: str = "backward", detail: str | None = None
) -> Any:
    return Verification(1, 0, phase, what, same, off, off, 1e-4, True, True, "value", detail)


def test_a_difference_that_roundings_make_is_none() -> None:
    rounding = Rounding([compared("grad a", 1e-3), compared("grad b", 1e-6)])
    assert rounding.explains(compared("grad a", 9e-3))
    assert not rounding.explains(compared("grad a", 2e-2))
    # densenet121 on an H100: the fused run turned another ReLU over than the one rounding had.
    assert rounding.explains(compared("grad b", 9e-4)) and not rounding.explains(compared("grad b", 2e-3))
    assert rounding.explains(compared("grad of another name", 9e-3))  # as the worst of its phase
    assert not rounding.explains(compared("output 0", 2e-4, phase="forward"))
    assert not rounding.explains(compared("grad a", 1e-3, detail="shape [2], before [3]"))


def searched(monkeypatch: pytest.MonkeyPatch, speeds: list[Ratio | None]) -> Any:
    """A search that kept as many changes as there are speeds after the first."""
    monkeypatch.setattr(fix, "speeds_of", lambda versions: speeds)
    version = Version(1, 2, 3, 0)
    search: Any = fix._Search(SimpleNamespace(), (version, SimpleNamespace()), 9, True, lambda line: None)
    for row in range(len(speeds) - 1):
        edit = Edit(Path("m.py"), row, row, str(row))
        search._steps.append(fix._Step(fix.Candidate((edit,)), (version, SimpleNamespace()), row))
        search.tried.append(TriedFix(ChangeKind.RECIPE, str(row), (), (), Outcome.KEPT, version, version))
    return search


def test_what_is_slower_is_taken_back_to_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    search = searched(monkeypatch, [None, Ratio(1.2, 1.1, 1.3), Ratio(0.5, 0.4, 0.6)])
    assert search.time() == Ratio(1.2, 1.1, 1.3)
    assert [one.outcome for one in search.tried] == [Outcome.KEPT, Outcome.SLOWER]
    assert [edit.text for edit in search.edits] == ["0"]
    search = searched(monkeypatch, [None, Ratio(0.5, 0.4, 0.6)])
    assert search.time() is None and search.edits == ()
    search = searched(monkeypatch, [None, Ratio(0.9, 0.8, 1.1), Ratio(1.0, 0.9, 1.1)])
    search.time()
    assert len(search._steps) == 3 and all(one.outcome is Outcome.KEPT for one in search.tried)


def test_what_fix_tried_as_rows_of_the_table_of_tries() -> None:
    before, after = Version(1, 2, 5, 0, outside=6), Version(2, 9, 3, 0, outside=1)
    wrong = Version(2, 9, 3, 0, wrong=("output 0 differs",), outside=1)
    speed = Ratio(1.2, 1.1, 1.3)
    tried = (
        TriedFix(ChangeKind.RECIPE, "x + y", ("m.py:1",), (), Outcome.KEPT, before, after, speed),
        TriedFix(
            ChangeKind.RECIPE, "freeze", (), (), Outcome.FAILED, after, Version(0, 0, 0, 0, problem="no")
        ),
        TriedFix(ChangeKind.RECIPE, "other", (), (), Outcome.WRONG, after, wrong),
    )
    rows = as_tries(Fixes("m.py", before, after, tried, "diff"))
    assert [one.change for one in rows] == ["fix: x + y", "fix: freeze", "fix: other"]
    assert (rows[0].groups, rows[0].ops_fused, rows[0].unfused, rows[0].speed) == (2, 9, 1, speed)
    assert rows[1].problem == "no" and rows[2].wrong == 1


def found() -> Fixes:
    before, after = (
        Version(0, 0, 3, 0),
        Version(1, 2, 1, 0, wrong=("output 0 differs",), unfused=frozenset("a")),
    )
    speed = Ratio(1.2, 1.1, 1.3)
    tried = (
        TriedFix(
            ChangeKind.OUT_OF_PLACE, "x | y", ("/a/m.py:3",), ("a note",), Outcome.KEPT, before, after, speed
        ),
        TriedFix(ChangeKind.FREEZE, "model frozen", (), (), Outcome.WRONG, after, after),
    )
    diff = '--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-"""```"""\n+x\n'
    return Fixes("m.py", before, after, tried, diff, ("zoo.py:1 is a package's",), speed, fuser="nnc")


def test_what_was_tried_as_json_is_as_its_schema_says() -> None:
    data = json.loads(as_json(found()))
    jsonschema.validate(data, json.loads((ROOT / "docs" / "fix.schema.json").read_text()))
    assert data["schema"] == "fusiondoc.fix/1" and next(iter(data)) == "schema"
    assert [(one["kind"], one["outcome"]) for one in data["tried"]] == [
        ("out of place", "kept"),
        ("freeze", "computes something else"),
    ]
    assert "unfused" not in data["together"] and data["speed"]["value"] == 1.2


def test_what_was_tried_as_markdown() -> None:
    text = as_markdown(found(), "/a/")
    assert "| x \\| y | m.py:3 | 0 → 1 | 0 → 2 | 3 → 1 | 1\\.20 times as fast" in text
    assert "- model frozen: computes something else: output 0 differs" in text
    assert "````diff\n--- a/m.py" in text and text.endswith("+x\n````\n")


@pytest.mark.parametrize("name", ["fixes.html", "fixes", "nowhere/fixes.json"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    name: str, fusiondoc: Any, tmp_path: Path
) -> None:
    done = fusiondoc("fix", "none.py", "-o", name, cwd=tmp_path)
    assert done.returncode == 2 and name.split(".")[0] in done.stderr and "none.py" not in done.stderr


def ordered(text: str, op: str, line: int) -> list[Proposal]:
    at = site(text, f"aten::{op}", line)
    program: Any = SimpleNamespace(
        sites=[],
        idle_sites=[at],
        files=[at.file],
        lines_that_ran=frozenset((Path("m.py"), n) for n in range(1, 40)),
        options=SimpleNamespace(trace=False),
    )
    return list(order.propose(program))


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        ("return torch.tanh(x.view(4, -1)) * 2", "view", "return (torch.tanh(x) * 2).view(4, -1)"),
        ("y = F.relu((x + 1).permute(1, 0))", "permute", "y = F.relu(x + 1).permute(1, 0)"),
        (
            "y = torch.exp(torch.cat([x, y * 2], 1))",
            "cat",
            "y = torch.cat([torch.exp(x), torch.exp(y * 2)], 1)",
        ),
    ],
)
def test_a_view_or_concatenation_moves_behind(line: str, op: str, after: str) -> None:
    text = HEAD + f"def f(x, y):\n    {line}\n"
    (found,) = ordered(text, op, text.count("\n"))
    assert changed_text(text, found.edits) == text.replace(line, after)


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.softmax(x.view(4, -1), 1)",  # not element by element
        "y = torch.tanh(torch.cat(parts, 1))",  # parts that are not written out
        "y = torch.add(x.view(4, -1), y)",
        "y = x.view(4, -1)",
    ],
)
def test_what_cannot_move_stays(line: str) -> None:
    text = HEAD + f"def f(x, y, parts):\n    {line}\n"
    assert ordered(text, "view", text.count("\n")) == []


@pytest.mark.parametrize(
    ("before", "after", "op"),
    [
        (
            ["h = (x * 2).view(4, -1)  # heads", "# more", "h = torch.tanh(h)", "return h.t()"],
            ["h = (x * 2)  # heads", "# more", "h = torch.tanh(h)", "h = h.view(4, -1)", "return h.t()"],
            "view",
        ),
        (
            ["x = x.view(4, -1)  # heads", "x = torch.tanh(x)", "return torch.exp(x * 2) + y"],
            ["# heads", "x = torch.tanh(x)", "return torch.exp(x * 2).view(4, -1) + y"],
            "view",
        ),
        (
            ["b = torch.flip(x, [0])", "return 2 - b"],
            ["b = x", "return torch.flip(2 - b, [0])"],
            "flip",
        ),
        (["x = x.roll(1)", "x = -x"], ["x = -x", "x = x.roll(1)"], "roll"),
    ],
)
def test_an_operator_moves_over_lines(before: list[str], after: list[str], op: str) -> None:
    text, wanted = ("def f(x, y):\r\n\t" + "\r\n\t".join(lines) + "\r\n" for lines in (before, after))
    head = HEAD.replace("\n", "\r\n")
    text, wanted = head + text, head + wanted
    (found,) = ordered(text, op, HEAD.count("\n") + 2)
    assert changed_text(text, found.edits) == wanted
    kind = ChangeKind.MOVE_VIEW if op == "view" else ChangeKind.MOVE
    assert found.kind is kind


@pytest.mark.parametrize(
    "lines",
    [
        ["h = x.view(4, -1)", "h = torch.softmax(h, 1)", "return h"],  # over a dimension
        ["h = x.view(4, -1)", "return torch.tanh(h) + h"],  # read twice
        ["h = x.view(4, -1)", "y = torch.tanh(h)", "return y * h"],  # read later
        ["h = x.view(4, -1)", "h = h * y", "return h"],  # y has another shape
        ["h = x.view(4, -1); z = h", "return torch.tanh(h)"],
        ["for _ in range(2): x = x.view(4, -1)", "return torch.tanh(x)"],
    ],
)
def test_an_operator_stays_where_more_is_read_of_it(lines: list[str]) -> None:
    text = HEAD + "def f(x, y):\n    " + "\n    ".join(lines) + "\n"
    assert ordered(text, "view", HEAD.count("\n") + 2) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            ["y = x * 2", "print(y)  # why", "return torch.tanh(y)"],
            ["y = x * 2", "result = torch.tanh(y)", "print(y)  # why", "return result"],
        ),
        (
            ["y = x * 2", "print(y)", "z = y + 1", "return z"],
            ["y = x * 2", "z = y + 1", "print(y)", "return z"],
        ),
        (["y = x * 2", "self.last = y", "z = y + 1"], ["y = x * 2", "z = y + 1", "self.last = y"]),
    ],
)
def test_a_print_in_the_middle_goes_to_the_end(before: list[str], after: list[str]) -> None:
    text, wanted = (HEAD + "def f(self, x):\n    " + "\n    ".join(o) + "\n\n" for o in (before, after))
    (found,) = ordered(text, "mul", 1)
    assert changed_text(text, found.edits) == wanted and found.kind is ChangeKind.SPLIT


@pytest.mark.parametrize(
    "lines",
    [
        ["y = x * 2", "print(y)", "y = y + 1"],  # it would print another y
        ["y = x * 2", "print(y)", "y += 1"],
        ["y = x * 2", "self.last = y", "return self.last + 1"],
        ["print(x)", "y = x * 2"],  # nothing ran before it
        ["y = x * 2", "log(y)", "z = y + 1"],  # who knows what it does
    ],
)
def test_a_statement_that_others_see_stays(lines: list[str]) -> None:
    text = "def f(self, x):\n    " + "\n    ".join(lines) + "\n"
    ran = frozenset((Path("m.py"), n) for n in range(2, 9) if "print(x)" not in lines or n > 2)
    program: Any = SimpleNamespace(
        files=[parsed(text)], lines_that_ran=ran, options=SimpleNamespace(trace=False)
    )
    assert list(order._statements(program)) == []


# -- operands -----------------------------------------------------------------------------------------------


def cast(line: str, op: str, types: list[str], text: str = "the fuser does not fuse Byte tensors") -> str:
    source = f"import torch\ndef f(x, m, n):\n    {line}\n"
    row: Any = SimpleNamespace(op=op, reason=SimpleNamespace(text=text, code="FD223"), source="m.py:3:8")
    node = SimpleNamespace(op=op, source="m.py:3:8", inputs=types)
    report = SimpleNamespace(programs=[SimpleNamespace(nodes=[node])])
    program: Any = SimpleNamespace(sites=[Site(row, parsed(source), 3)], files=[], report=report)
    edits = [edit for one in operands.propose(program) for edit in one.edits]
    return changed_text(source, edits).split("\n")[2].strip()


BYTE, FLOAT, LONG = "Byte(4, strides=[1])", "Float(4, strides=[1])", "Long(4, strides=[1])"


def test_an_operand_of_another_dtype_is_cast() -> None:
    assert cast("y = x * m", "aten::mul", [FLOAT, BYTE]) == "y = x * m.int()"
    assert cast("y = (m + 1) * x", "aten::mul", [BYTE, FLOAT]) == "y = ((m + 1).int()) * x"
    assert cast("y = x > m[0]", "aten::gt", [FLOAT, BYTE]) == "y = x > m[0].int()"
    floats = "NNC takes it of floating-point tensors only, and this one is Long"
    assert (
        cast("y = torch.fmod(n, 5) * x", "aten::fmod", [LONG], floats) == "y = torch.fmod(n.float(), 5) * x"
    )
    assert cast("y = n.fmod(m)", "aten::fmod", [LONG, LONG], floats) == "y = n.float().fmod(m.float())"


def test_an_operand_that_the_plan_does_not_tell_stays() -> None:
    for line, types in (("y = x * m", [FLOAT]), ("y = x * m", [FLOAT, FLOAT]), ("y = x + m", [FLOAT, BYTE])):
        assert cast(line, "aten::mul", types) == line
    assert cast("y = x * m", "aten::mul", ["ComplexFloat(4)", FLOAT]) == "y = x * m"


def test_a_dtype_of_another_tensor_and_a_tensor_of_a_number() -> None:
    assert cast("y = x.to(m.dtype)", "aten::to", []) == "y = x.type_as(m)"
    assert cast("y = x.to(dtype=m.dtype)", "aten::to", []) == "y = x.type_as(m)"
    assert cast("y = x.to(m)", "aten::to", []) == "y = x.type_as(m)"
    for line in ("y = x.to(torch.half)", "y = x.to(m.device)", "y = x.to(m.dtype, True)"):
        source = parsed(HEAD + line)
        row: Any = SimpleNamespace(op="aten::to")
        assert list(operands._type_as(Site(row, source, HEAD.count("\n") + 1))) == []
    text = HEAD + "y = x * torch.tensor(0.5, device=x.device)\n"
    (found,) = operands._number(site(text, "aten::tensor", HEAD.count("\n") + 1))
    assert changed_text(text, found.edits) == HEAD + "y = x * 0.5\n"
    for line in ("torch.tensor([0.5])", "torch.tensor(n)", "torch.tensor(0.5, requires_grad=True)"):
        assert list(operands._number(site(HEAD + line, "aten::tensor", HEAD.count("\n") + 1))) == []


# -- what is always given -----------------------------------------------------------------------------------


def optional(body: str, tested: str, ran: bool = True) -> list[str]:
    """The texts that the proposals for a test for None lead to."""
    file = parsed(body)
    line = body[: body.index(tested)].count("\n") + 1
    row: Any = SimpleNamespace(
        op="prim::If", reason=SimpleNamespace(text="control flow (a test of an Optional argument for None)")
    )
    lines = frozenset([(Path("m.py"), line + 1)] if ran else [])
    program: Any = SimpleNamespace(sites=[Site(row, file, line)], files=[file], lines_that_ran=lines)
    return [changed_text(body, one.edits) for one in constants.propose(program)]


MASKED = """\
def outer(x, {0}):
    return inner(x, mask)
def inner(x, {0}, n: int = 3):
    if mask is not None:
        x = x * mask
    return x
"""


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("mask: Optional[Tensor] = None", "mask: Tensor"),
        ("mask: typing.Optional[torch.Tensor]", "mask: torch.Tensor"),
        ("mask: 'Tensor | None' = None", "mask: 'Tensor'"),
    ],
)
def test_an_argument_that_is_always_given_is_no_optional(kind: str, plain: str) -> None:
    assert optional(MASKED.format(kind), "if mask") == [MASKED.format(plain)]


def test_an_argument_that_is_never_given_is_none() -> None:
    text, plain = MASKED.format("mask: Optional[Tensor] = None"), MASKED.format("mask: None = None")
    assert optional(text, "if mask", ran=False) == [plain]
    # TorchScript then refuses a call that gives it; it is not quietly left out.
    assert optional(MASKED.format("mask: int = 3"), "if mask", ran=False) == []


@pytest.mark.parametrize(
    "kind", ["mask: Tensor", "mask", "mask=None", "y: int = 1, mask: Optional[Tensor] = None"]
)
def test_an_argument_that_cannot_change_stays(kind: str) -> None:
    assert optional(MASKED.format(kind), "if mask") == []


def test_an_attribute_is_what_it_holds() -> None:
    text = (
        "class A(M):\n    bias: Optional[Tensor]\n    n: int\n    def f(self, x):\n        bias = self.bias\n"
        "        if bias is not None:\n            x = x + bias\n        return x\n"
    )
    assert optional(text, "if bias") == [text.replace("    bias: Optional[Tensor]\n", "")]
    assert optional(text.replace("Optional[Tensor]", "Tensor"), "if bias") == []
    assert optional(text.replace("[Tensor]\n", "[Tensor] = None\n"), "if bias") == []


def named_dimensions(line: str, op: str, types: list[str]) -> list[str]:
    text = HEAD + line + "\n"
    at = site(text, f"aten::{op}", text.count("\n"))
    at.row.source = "m.py:5:4"
    node = SimpleNamespace(op=f"aten::{op}", source="m.py:5:4", inputs=types)
    report = SimpleNamespace(programs=[SimpleNamespace(nodes=[node])], groups=[])
    program: Any = SimpleNamespace(report=report)
    found = recipes_in_code._dimensions(program, at)
    return [changed_text(text, one.edits)[len(HEAD) :].strip() for one in found]


def test_a_reduction_gets_its_dimensions() -> None:
    two = ["Float(4, 8, strides=[8, 1])"]
    assert named_dimensions("y = x.mean()", "mean", two) == ["y = x.mean([0, 1])"]
    assert named_dimensions("y = torch.sum(x)", "sum", two) == ["y = torch.sum(x, [0, 1])"]
    assert named_dimensions("y = x.std()", "std", two) == ["y = x.std([0, 1], unbiased=True)"]
    assert named_dimensions("y = x.std(unbiased=False)", "std", two) == ["y = x.std([0, 1], unbiased=False)"]


@pytest.mark.parametrize("line", ["y = x.mean(1)", "y = x.mean(dim=1)", "y = mine.mean(x, 1)", "y = x.sum()"])
def test_a_reduction_with_dimensions_or_of_another_name_stays(line: str) -> None:
    assert named_dimensions(line, "mean", ["Float(4, 8, strides=[8, 1])"]) == []
    assert named_dimensions("y = x.mean()", "mean", ["Tensor"]) == []  # nothing tells how many it has


# -- the run ------------------------------------------------------------------------------------------------

MADE = "import torch\nfrom zoo import Net\nmodel = Net()\ninputs = (torch.ones(2, requires_grad=True),)\n"


def of_a_run(text: str, **changed: Any) -> Any:
    options = SimpleNamespace(trace=False, knobs={}, script=False, eval=False)
    usual = {
        "rows": [], "fuser": "nnc", "torch": "2.13.0", "backward": False, "is_module": True,
        "training": False, "options": options, "target_file": parsed(text),
        "target": SimpleNamespace(name=None, call=None),
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **changed})


def kinds(program: Any) -> list[ChangeKind]:
    place = place_of_model(program)
    assert place is not None
    return [one.kind for one in model_setup.propose(program, place)]


def test_a_model_in_eval_mode_is_frozen_and_one_in_training_only_on_request() -> None:
    assert kinds(of_a_run(MADE)) == [ChangeKind.FREEZE]
    program = of_a_run(MADE, training=True)
    place = place_of_model(program)
    assert place is not None
    found = list(model_setup.propose(program, place))
    assert [one.kind for one in found] == [ChangeKind.EVAL, ChangeKind.FREEZE]
    assert all(one.eval_mode for one in found)  # left out without --inference
    texts = [changed_text(MADE, one.edits).split("\n") for one in found]
    assert "model.eval()" in texts[0] and "model = torch.jit.freeze(torch.jit.script(model))" in texts[1]


@pytest.mark.parametrize("changed", [{"backward": True}, {"is_module": False}, {"training": None}])
def test_what_cannot_be_frozen_is_not(changed: dict[str, Any]) -> None:
    assert kinds(of_a_run(MADE, **changed)) == []
    traced = SimpleNamespace(trace=True)
    assert kinds(of_a_run(MADE, options=traced)) == []


def test_inputs_record_no_gradients_in_inference() -> None:
    program = of_a_run(MADE)
    (found,) = fix_settings._without_grad(program)
    assert changed_text(MADE, found.edits) == MADE.replace("=True", "=False") and found.note is not None
    assert list(fix_settings._without_grad(of_a_run(MADE.replace("inputs =", "others =")))) == []


def unfused(code: str, text: str = "") -> Any:
    return SimpleNamespace(op="aten::mul", reason=SimpleNamespace(code=code, text=text))


def test_plans_for_fixed_shapes_where_none_was_left() -> None:
    def found(program: Any) -> list[str]:
        made = fix_settings._static_shapes(program, program.target_file)
        return [
            line for one in made for line in changed_text(MADE, one.edits).split("\n") if "STATIC" in line
        ]

    assert found(of_a_run(MADE, rows=[unfused("FD304")])) == [
        "torch.jit.set_fusion_strategy([('STATIC', 20)])"
    ]
    assert found(of_a_run(MADE, rows=[unfused("FD211")])) == []
    asked = SimpleNamespace(knobs={"fusion_strategy": "STATIC:20"})
    assert found(of_a_run(MADE, rows=[unfused("FD304")], options=asked)) == []


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("m = x.max(1)[0]", "m = x.amax(1)"),
        ("m = torch.min(x, 1).values + 1", "m = torch.amin(x, 1) + 1"),
        ("m = x.max(dim=1, keepdim=True)[0]", "m = x.amax(dim=1, keepdim=True)"),
        ("m = x.max(1)[1]", None),  # the indices
        ("m = x.max(1)", None),
        ("m = x.max()", None),
    ],
)
def test_the_values_of_an_extreme_alone(line: str, after: str | None) -> None:
    text = HEAD + line + "\n"
    at = site(text, "aten::min" if "min" in line else "aten::max", text.count("\n"))
    program: Any = SimpleNamespace(fuser="nvfuser", torch="2.1.2", backward=False)
    found = [changed_text(text, one.edits) for one in recipes_in_code._extremes(program, at)]
    assert found == ([] if after is None else [HEAD + after + "\n"])
    program.backward = True  # there is no gradient formula
    assert list(recipes_in_code._extremes(program, at)) == []
