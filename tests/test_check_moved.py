"""The gate over models under NNC: harmless changes pass, with a note where a name
changed; a lost group is broken, also where names changed with it. ``compare`` of
the same runs agrees."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, Run
from gate_models import HARMLESS, MODELS, GateModel
from thorough import every

from fusiondoc.expectations.match import check
from fusiondoc.expectations.moved import one_more
from fusiondoc.expectations.read_file import loads
from fusiondoc.workflows.load import report_from

pytestmark = pytest.mark.torch

NAMES = [one.name for one in MODELS]


def write_program(path: Path, text: str) -> None:
    """Python knows compiled files by the second and size of their source, which are
    often the same here."""
    path.write_text(text)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


class Gate:
    """A model with the file of expectations that ``--update`` wrote from it."""

    def __init__(self, model: GateModel, run: Run, folder: Path) -> None:
        self.model, self._run, self._folder = model, run, folder
        self._options = (
            "--expect",
            "fusions.yaml",
            "--fuser",
            "nnc",
            *model.options,
        )
        done = self.check("model.py", model.text, "--update")
        assert done.returncode == 0, done.stderr
        self.first = self.newest()

    def check(self, name: str, text: str, *more: str):
        for old in self._folder.glob("*.py"):
            old.unlink()
        write_program(self._folder / name, text)
        return self._run(
            "check", name, *self._options, *more, env={"COLUMNS": "1000"}
        )

    def newest(self) -> str:
        return sorted(
            path.name
            for path in (self._folder / ".fusiondoc").iterdir()
            if path.is_dir()
        )[-1]

    def compared(self) -> str:
        done = self._run(
            "compare", f".fusiondoc/{self.first}", f".fusiondoc/{self.newest()}"
        )
        return done.stdout


@pytest.fixture
def gate(request: pytest.FixtureRequest, fusiondoc: Run, tmp_path: Path) -> Gate:
    (model,) = (one for one in MODELS if one.name == request.param)
    return Gate(model, fusiondoc, tmp_path)


@pytest.mark.parametrize("gate", every(9, NAMES), indirect=True)
def test_harmless_changes_hold(gate: Gate, tmp_path: Path) -> None:
    """``--update`` writes the new names, and nothing else; then they hold without a
    note."""
    written = (tmp_path / "fusions.yaml").read_text()
    for change, edit in every(
        2, list({**HARMLESS, "rename the file": str}.items())
    ):
        name = "net.py" if change == "rename the file" else "model.py"
        text = edit(gate.model.text)
        assert text != gate.model.text or name == "net.py"
        done = gate.check(name, text)
        assert done.returncode == 0, (change, done.stdout, done.stderr)
        more = "equal layer" in change
        if not more:
            assert "Changed  nothing" in gate.compared(), (change, gate.compared())
        renamed = change in ("rename the file", "rename a module") and not (
            change == "rename a module" and "modules:" not in written
        )
        assert ("--update writes the new name" in done.stdout) == renamed, (
            change,
            done.stdout,
        )
        if renamed:
            assert gate.check(name, text, "--update").returncode == 0
            after = (tmp_path / "fusions.yaml").read_text()
            old, new = (
                ("model.py", "net.py") if name == "net.py" else ("blocks", "layers")
            )
            assert after == written.replace(old, new) != written
            assert "note" not in gate.check(name, text).stdout
            (tmp_path / "fusions.yaml").write_text(written)


@pytest.mark.parametrize("gate", every(9, NAMES), indirect=True)
def test_a_lost_group_is_broken_whatever_was_renamed(
    gate: Gate, tmp_path: Path
) -> None:
    written = (tmp_path / "fusions.yaml").read_text()
    lost = gate.model.text.replace(*gate.model.loss)
    one_lost = _in_one_layer(gate.model)
    changes = {"rename the file": str, "nothing else": str, **HARMLESS}
    for change, edit in every(3, list(changes.items())):
        name = "net.py" if change == "rename the file" else "model.py"
        # Of three layers two still have the group: as many as the file knows.
        for text in (lost,) if "equal layer" in change else (lost, one_lost):
            done = gate.check(name, edit(text))
            broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
            if done.returncode == 2:
                assert (
                    change == "rename the file"
                    and "no section of fusions.yaml" in done.stderr
                )
                continue
            assert done.returncode == 1 and broken, (
                change,
                done.stdout,
                done.stderr,
            )
    assert (tmp_path / "fusions.yaml").read_text() == written


def _in_one_layer(model: GateModel) -> str:
    """The loss in the last of the layers alone: its function is written twice."""
    old, new = model.loss
    lost = model.text.replace(old, new)
    block = lost[lost.index("class Block") : lost.index("class Model")]
    functions = lost[lost.index("def squash") : lost.index("class Block")]
    other = (functions + block).replace("Block", "LastBlock")
    other = other.replace("squash", "squash_last").replace(
        "stretch", "stretch_last"
    )
    text = model.text.replace("class Model(", other + "class Model(")
    return text.replace(
        "[Block() for _ in range(LAYERS)]",
        "[Block() for _ in range(LAYERS - 1)] + [LastBlock()]",
    )


BOTH = """\
sections:
- name: one
  when: {target: one.py}
  groups: [[mul, relu, add]]
- name: two
  when: {target: two.py}
  groups: [[mul, relu, add]]
"""


def test_a_target_that_is_still_there_was_not_renamed(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """A second model needs a section of its own: ``--update`` adds one, and leaves
    that of the first."""
    text = MODELS[0].text
    write_program(tmp_path / "model.py", text)
    write_program(tmp_path / "copy.py", text)
    run = ("--expect", "fusions.yaml", "--fuser", "nnc")
    assert fusiondoc("check", "model.py", *run, "--update").returncode == 0
    before = (tmp_path / "fusions.yaml").read_text()
    done = fusiondoc("check", "copy.py", *run)
    assert (
        done.returncode == 2
        and "no section of fusions.yaml is for this run" in done.stderr
    )
    assert fusiondoc("check", "copy.py", *run, "--update").returncode == 0
    after = (tmp_path / "fusions.yaml").read_text()
    assert after.startswith(before) and "target: copy.py" in after


def test_a_renamed_target_that_two_sections_fit_or_none_is_an_error(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write_program(tmp_path / "model.py", MODELS[0].text)
    run = ("check", "model.py", "--expect", "fusions.yaml", "--fuser", "nnc")
    (tmp_path / "fusions.yaml").write_text(BOTH)
    done = fusiondoc(*run)
    assert (
        done.returncode == 2
        and "one: it is for one.py, and the model is model.py" in done.stderr
    )
    (tmp_path / "fusions.yaml").write_text(
        BOTH.replace("[[mul, relu, add]]", "[[sigmoid, exp]]", 1)
    )
    done = fusiondoc(*run)
    assert done.returncode == 0 and "two.py is model.py now" in done.stdout.replace(
        "\n         ", " "
    )
    (tmp_path / "fusions.yaml").write_text(
        BOTH.replace("[[mul, relu, add]]", "[[sigmoid, exp]]")
    )
    assert fusiondoc(*run).returncode == 2


def test_lines_and_names_that_a_file_gives_move_with_their_groups(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = MODELS[0].text
    at = text[: text.index("return torch.relu")].count("\n") + 1
    first = f"- ops: [mul, relu, add]\n  source: model.py:{at}\n  function: squash\n  module: Block\n"
    rest = "- [mul, relu, add, add, tanh, mul]\n"
    run = ("check", "--expect", "f.yaml", "--fuser", "nnc")
    (tmp_path / "f.yaml").write_text(
        f"number_of_groups: {{at_least: 2}}\ngroups:\n{first}{rest}"
    )
    write_program(tmp_path / "model.py", text)
    assert "note" not in fusiondoc(*run, "model.py").stdout
    moved = (
        text.replace("LAYERS = 2", "\n\nLAYERS = 2")
        .replace("squash", "shrink")
        .replace("Block", "Part")
    )
    write_program(tmp_path / "model.py", moved)
    done = fusiondoc(*run, "model.py", env={"COLUMNS": "1000"})
    assert done.returncode == 0, done.stdout
    assert "squash is shrink now; --update writes the new name" in done.stdout
    assert fusiondoc(*run, "model.py", "--update").returncode == 0
    after = (tmp_path / "f.yaml").read_text()
    assert (
        "function: shrink\n  module: Part\n" in after
        and f"model.py:{at}" not in after
    )
    assert "note" not in fusiondoc(*run, "model.py").stdout
    # Where the file does not say how many groups there are, another place may be
    # another group.
    (tmp_path / "f.yaml").write_text(f"groups:\n{first}{rest}")
    assert fusiondoc(*run, "model.py").returncode == 1


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (
            "2",
            0,
            "1 more of what the file expects (mul, relu, add); exactly: 2 forbids that",
        ),
        pytest.param(
            "{at_least: 2}", 0, "found 3 (G1, G2)", marks=pytest.mark.nightly
        ),
        ("{exactly: 2}", 1, "BROKEN"),
        pytest.param("{at_most: 2}", 1, "BROKEN", marks=pytest.mark.nightly),
        ("4", 1, "BROKEN"),
    ],
)
def test_one_more_equal_layer_in_files_as_they_are_written(
    number: str, status: int, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """``number_of_groups: 2`` is how ``--update`` wrote it."""
    write_program(
        tmp_path / "model.py", MODELS[0].text.replace("LAYERS = 2", "LAYERS = 3")
    )
    groups = "groups:\n- [mul, relu, add]\n- [mul, relu, add, add, tanh, mul]\n"
    (tmp_path / "f.yaml").write_text(f"{groups}number_of_groups: {number}\n")
    done = fusiondoc(
        "check",
        "model.py",
        "--expect",
        "f.yaml",
        "--fuser",
        "nnc",
        env={"COLUMNS": "1000"},
    )
    assert done.returncode == status and said in done.stdout, done.stdout
    if status:
        run = ("check", "--expect", "f.yaml")
        assert fusiondoc(*run, "--update").returncode == 0
        assert fusiondoc(*run).returncode == 0
        assert (
            number.strip("{}").partition(":")[0]
            in (tmp_path / "f.yaml").read_text()
            or number == "4"
        )
    # Another group than the file names is no more of the same.
    (tmp_path / "f.yaml").write_text(
        "groups:\n- [mul, relu, add]\nnumber_of_groups: 1\n"
    )
    assert fusiondoc("check", "--expect", "f.yaml").returncode == 1


def test_a_module_that_is_gone_is_not_another_one_that_was_there(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """The file counts the groups of both; without one of them there are fewer."""
    text = (
        MODELS[0]
        .text.replace(
            "self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])",
            "self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])\n"
            "        self.others = nn.ModuleList([Block() for _ in range(LAYERS)])",
        )
        .replace(
            "        return stretch",
            "        for other in self.others:\n            x = other(x)\n        return stretch",
        )
    )
    write_program(tmp_path / "model.py", text)
    run = ("check", "model.py", "--expect", "f.yaml", "--fuser", "nnc")
    assert fusiondoc(*run, "--update").returncode == 0
    assert "layer: blocks\n" in (tmp_path / "f.yaml").read_text()
    gone = text.replace(
        "        for block in self.blocks:\n            x = block(x)\n", ""
    )
    assert gone != text
    write_program(tmp_path / "model.py", gone)
    done = fusiondoc(*run)
    assert done.returncode == 1 and "new name" not in done.stdout, done.stdout


def test_the_same_operators_in_another_order_hold_where_every_group_is_accounted_for() -> (
    None
):
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")]
    )
    bodies = [
        [name.partition("::")[2] for name in group.ops] for group in report.groups
    ]
    bodies[0].reverse()
    text = "groups:\n" + "".join(f"- [{', '.join(body)}]\n" for body in bodies)
    outcomes = check(
        loads(f"{text}number_of_groups: {len(bodies)}\n", "f.yaml").sections[0],
        report,
    )
    assert all(one.holds for one in outcomes)
    assert "in another order" in (outcomes[0].note or "")
    assert not check(loads(text, "f.yaml").sections[0], report)[0].holds
    fewer = replace(report, groups=report.groups[1:])
    lost = check(
        loads(f"{text}number_of_groups: {{at_most: 9}}\n", "f.yaml").sections[0],
        fewer,
    )
    assert not lost[0].holds and lost[0].note is None


def test_a_part_that_comes_once_more_in_a_row() -> None:
    assert one_more("ab", "aab") == ("a",)
    assert one_more("xabaz", "xababaz") == ("a", "b")
    assert one_more("abcd", "abcabcabcd") == ("a", "b", "c")
    assert (
        one_more("ab", "ab")
        is one_more("ab", "abc")
        is one_more("abc", "ab")
        is None
    )
