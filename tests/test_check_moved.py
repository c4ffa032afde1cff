"""The gate over models under NNC: harmless changes pass, with a note where a name changed; a lost group is
broken, also where names changed with it. ``compare`` of the same runs agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run
from gate_models import HARMLESS, MODELS, GateModel
from thorough import every

pytestmark = pytest.mark.torch

NAMES = [one.name for one in MODELS]


class Gate:
    """A model with the file of expectations that ``--update`` wrote from it."""

    def __init__(self, model: GateModel, run: Run, folder: Path) -> None:
        self.model, self._run, self._folder = model, run, folder
        self._options = ("--expect", "fusions.yaml", "--fuser", "nnc", *model.options)
        done = self.check("model.py", model.text, "--update")
        assert done.returncode == 0, done.stderr
        self.first = self.newest()

    def check(self, name: str, text: str, *more: str):
        for old in self._folder.glob("*.py"):
            old.unlink()
        (self._folder / name).write_text(text)
        return self._run("check", name, *self._options, *more, env={"COLUMNS": "1000"})

    def newest(self) -> str:
        return sorted(path.name for path in (self._folder / ".fusiondoc").iterdir() if path.is_dir())[-1]

    def compared(self) -> str:
        done = self._run("compare", f".fusiondoc/{self.first}", f".fusiondoc/{self.newest()}")
        return done.stdout


@pytest.fixture
def gate(request: pytest.FixtureRequest, fusiondoc: Run, tmp_path: Path) -> Gate:
    (model,) = (one for one in MODELS if one.name == request.param)
    return Gate(model, fusiondoc, tmp_path)


@pytest.mark.parametrize("gate", NAMES, indirect=True)
def test_harmless_changes_hold(gate: Gate, tmp_path: Path) -> None:
    """``--update`` writes the new names, and nothing else; then they hold without a note."""
    written = (tmp_path / "fusions.yaml").read_text()
    for change, edit in {"rename the file": str, **HARMLESS}.items():
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
        assert ("--update writes the new name" in done.stdout) == renamed, (change, done.stdout)
        if renamed:
            assert gate.check(name, text, "--update").returncode == 0
            after = (tmp_path / "fusions.yaml").read_text()
            old, new = ("model.py", "net.py") if name == "net.py" else ("blocks", "layers")
            assert after == written.replace(old, new) != written
            assert "note" not in gate.check(name, text).stdout
            (tmp_path / "fusions.yaml").write_text(written)


@pytest.mark.parametrize("gate", NAMES, indirect=True)
def test_a_lost_group_is_broken_whatever_was_renamed(gate: Gate, tmp_path: Path) -> None:
    written = (tmp_path / "fusions.yaml").read_text()
    lost = gate.model.text.replace(*gate.model.loss)
    one_lost = _in_one_layer(gate.model)
    changes = {"rename the file": str, "nothing else": str, **HARMLESS}
    for change, edit in every(3, list(changes.items())):
        name = "net.py" if change == "rename the file" else "model.py"
        for text in (lost, one_lost):
            done = gate.check(name, edit(text))
            broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
            if done.returncode == 2:
                assert change == "rename the file" and "no section of fusions.yaml" in done.stderr
                continue
            assert done.returncode == 1 and broken, (change, done.stdout, done.stderr)
    assert (tmp_path / "fusions.yaml").read_text() == written


def _in_one_layer(model: GateModel) -> str:
    """The loss in the last of the layers alone: its function is written twice."""
    old, new = model.loss
    lost = model.text.replace(old, new)
    block = lost[lost.index("class Block") : lost.index("class Model")]
    functions = lost[lost.index("def squash") : lost.index("class Block")]
    other = (functions + block).replace("Block", "LastBlock")
    other = other.replace("squash", "squash_last").replace("stretch", "stretch_last")
    text = model.text.replace("class Model(", other + "class Model(")
    return text.replace(
        "[Block() for _ in range(LAYERS)]", "[Block() for _ in range(LAYERS - 1)] + [LastBlock()]"
    )
