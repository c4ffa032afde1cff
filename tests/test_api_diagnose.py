"""``fusiondoc.diagnose``: targets as the command runs them, and models of this
process in a child."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import fusiondoc
from fusiondoc.errors import ModelFailed, UsageError
from fusiondoc.workflows.run_model import write_target

pytestmark = pytest.mark.torch

MODULE = """
import torch

def chain(x, y):
    return torch.relu(x + y) * 2

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return torch.relu(x * self.scale) * self.scale

model = chain
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user's that can be imported by name."""
    (tmp_path / "api_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield importlib.import_module("api_models")
    del sys.modules["api_models"]


def captures(folder: Path) -> list[Path]:
    return sorted(folder.glob(".fusiondoc/*-*"))


def test_a_module_by_name(module: Any, tmp_path: Path) -> None:
    """The child has the weights of here, and the Python model for the eager passes
    of ``verify``."""
    import torch

    model = module.Scaled()
    with torch.no_grad():
        model.scale.fill_(3.0)
    report = fusiondoc.diagnose(
        model,
        [(torch.ones(2, 4),), (torch.ones(3, 4),)],
        backward=True,
        verify=True,
        fuser="nnc",
    )
    assert report.fuser.effective == "nnc"
    assert {"forward"} <= {group.phase for group in report.groups}
    assert report.groups[0].ops == ("aten::mul", "aten::relu", "aten::mul")
    assert {row.inputs for row in report.verification} == {0, 1}
    assert all(row.same for row in report.verification)
    (capture,) = captures(tmp_path)
    assert (capture / "model.pickle").exists()
    assert fusiondoc.parse(capture).groups == report.groups
    assert str(report).startswith("Target")


def test_a_function_of_a_function_as_an_archive(tmp_path: Path) -> None:
    import torch

    def local(x):
        return torch.relu(x + 1) * 2

    report = fusiondoc.diagnose(
        local, torch.ones(4, 4), runs=3, fuser="nnc", folder=tmp_path
    )
    assert [group.ops for group in report.groups] == [
        ("aten::add", "aten::relu", "aten::mul")
    ]
    assert all(
        str(node.source).startswith(__file__) for node in report.groups[0].nodes
    )
    (capture,) = captures(tmp_path)
    assert (capture / "model.pt").exists() and not (
        capture / "model.pickle"
    ).exists()


def test_a_target_with_texts_that_fails(module: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="failed in the forward pass"):
        fusiondoc.diagnose(
            "api_models.py:chain",
            ["float32[2,3]", "float32[4]"],
            runs=3,
            fuser="nnc",
        )
    assert len(captures(tmp_path)) == 1
    assert fusiondoc.parse().target.name == "api_models.py:chain"


def loaded(folder: Path, fn: Any, *inputs: Any) -> Any:
    """(how it was handed over, model, inputs) as the child has them."""
    target = write_target(fn, inputs, folder, "it", False, by_name=True)
    names = runpy.run_path(str(target.file))
    return target.pickled, names["model"], names["inputs"]


def test_what_can_be_imported_is_pickled(module: Any, tmp_path: Path) -> None:
    assert loaded(tmp_path, module.chain, 1)[:2] == (True, module.chain)
    assert loaded(tmp_path, module.Scaled())[0]


def test_what_cannot_be_imported_is_scripted(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Local(torch.nn.Module):
        def forward(self, x):
            return x * 2

    def shadow(x):
        return x * 2

    shadow.__module__, shadow.__qualname__ = "api_models", "chain"
    for fn in (
        Local(),
        torch.nn.Sequential(Local()),
        torch.jit.script(module.chain),
        shadow,
    ):
        assert not loaded(tmp_path, fn)[0]
    assert not (tmp_path / "model.pickle").exists()
    monkeypatch.setattr(sys, "path", [])
    assert not loaded(tmp_path, module.Scaled())[0], (
        "sys.modules has it, a new process does not find it"
    )


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("model.pt", 3), {}, "are texts"),
        (("api_models.py:chain", [1.0]), {}, "are texts"),
        (("no_such.py",), {}, "no file 'no_such.py'"),
        ((max, [1]), {}, "list of tuples"),
        ((max, ()), {"fuser": "nvfuse"}, "unknown fuser"),
        ((max, ()), {"knobs": {"no_such_knob": 1}}, "no_such_knob"),
        ((max, ()), {"runs": 0}, "at least 1"),
        ((max, ()), {"python": "python"}, "this interpreter"),
        ((dict, ()), {}, "the class dict"),
        ((3, ()), {}, "of type int"),
    ],
)
def test_wrong_arguments_leave_no_capture(
    module: Any, tmp_path: Path, arguments: Any, options: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as told:
        fusiondoc.diagnose(*arguments, **options)
    assert told.value.hint
    assert captures(tmp_path) == []
