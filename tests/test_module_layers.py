"""The layer of every group and operator, against plain searches of the raw log and
torch's own modules."""

from __future__ import annotations

import lzma
import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import fusiondoc
from fusiondoc.model.report import Report
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.layer_names import common_layer, layer_of_scope
from fusiondoc.parsers.jit.layers import layers_of
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.regions import Around, RegionOutput, Regions

FOREIGN = Path(__file__).parents[1] / "fixtures" / "foreign"

_SECTION = re.compile(
    r"with prim::CudaFusionGroup_\d+ = graph\(.*?\n[^\n]*return \(", re.DOTALL
)
_SCOPED = re.compile(
    r" = (?!prim::Constant)[^\n]*, scope: (?:[^ ]*/)?__module\.([^ /]+)"
)


def _read(name: str) -> tuple[str, Report]:
    path = FOREIGN / f"{name}.log.xz"
    return lzma.decompress(path.read_bytes()).decode(), fusiondoc.parse(path)


def _parent(paths: Iterable[str]) -> str:
    return posixpath.commonpath([path.replace(".", "/") for path in paths]).replace(
        "/", "."
    )


@pytest.mark.parametrize(
    "name", ["bert.trace.eval.nvfuser", "lstm_cells.trace.eval.nvfuser"]
)
def test_a_group_is_of_the_module_that_the_scopes_in_the_log_share(
    name: str,
) -> None:
    raw, report = _read(name)
    plan = raw[raw.index("Before Compilation:") :]
    plan = plan[: plan.index("Optimized Graph:")]
    told = [_SCOPED.findall(section) for section in _SECTION.findall(plan)]
    shown = Counter(one.layer for group in report.groups for one in group.instances)
    expected = Counter(_parent(paths) for paths in told if paths)
    assert expected and not expected - shown
    # What a pass made has no scope: the two copies of each attention that BERT has
    # so stand inside it.
    rest = shown - expected
    assert sum(rest.values()) == sum(not paths for paths in told)
    assert all(layer is not None and layer in expected for layer in rest)


def test_operators_outside_groups_have_the_layers_of_their_scopes() -> None:
    raw, report = _read("bert.trace.eval.nvfuser")
    plan = raw[raw.index("Before Compilation:") :]
    plan = (
        plan[: plan.index("\nwith prim::CudaFusionGroup_0")]
        if "\nwith" in plan
        else plan
    )
    expected = set(re.findall(r" aten::linear\([^\n]*/__module\.([^ /]+) #", plan))
    (row,) = (row for row in report.unfused if row.op == "aten::linear")
    assert set(row.layers) == expected
    assert len(row.layers) == row.count == 19
    # Operators of the model's own forward method have no scope, and no layer.
    assert [row.layers for row in report.unfused if row.op == "aten::ones"] == [()]


def test_layers_of_a_scripted_model_in_training_are_told_by_its_parameters() -> (
    None
):
    """Autodiff replaces layer_norm by its formula, in graphs of their own without
    any module."""
    _, report = _read("convnext.script.train.nvfuser")
    layers = {
        one.layer
        for group in report.groups
        if group.phase != "backward" and "aten::native_layer_norm" in group.ops
        for one in group.instances
    }
    blocks = {"features.1": 2, "features.3": 3, "features.5": 2}
    known = {
        f"{stage}.{i}.block.2"
        for stage, count in blocks.items()
        for i in range(count)
    }
    assert layers <= known | {
        "features.0.1",
        "features.2.0",
        "features.4.0",
        "features.6.0",
        "classifier.0",
    }
    assert {
        "features.0.1",
        "features.1.0.block.2",
        "features.3.2.block.2",
    } <= layers


@pytest.mark.parametrize(
    ("scope", "layer"),
    [
        ("__module.encoder/__module.encoder.layer.0", "encoder.layer.0"),
        ("__module", None),
        ("BertModel/BertEncoder[encoder]/Linear[q]", "encoder.q"),
        ("BertModel", None),
        ("net.Model::/torch.nn.modules.linear.Linear::encoder.q", "encoder.q"),
        ("net.Model::", None),
        ("", None),
        (None, None),
    ],
)
def test_forms_of_scopes(scope: str | None, layer: str | None) -> None:
    assert layer_of_scope(scope) == layer


@pytest.mark.parametrize(
    ("layers", "together"),
    [
        (["a.0.output.dropout", "a.0.output", "a.0.output.norm"], "a.0.output"),
        (["layer1.0.bn1", "layer1.0.relu", None], "layer1.0"),
        (["mlp.1", "mlp.2"], "mlp"),
        (["a.layer_0.drop", "a.layer_0", "a.layer_1.norm"], "a.layer_0"),
        (["a.layer_0.x", "a.layer_1.norm"], "a.layer_0.x"),
        (["drop", "h.0.ln_1", "h.0.mlp"], "h.0"),
        ([None], None),
        ([], None),
    ],
)
def test_the_layer_of_several(
    layers: list[str | None], together: str | None
) -> None:
    assert common_layer(layers) == together


def test_a_view_between_two_modules_is_of_neither() -> None:
    text = """graph(%x : Tensor):
  %1 : Tensor = aten::relu(%x), scope: __module.a.b # m.py:1:0
  %2 : Tensor = aten::permute(%1)
  %3 : Tensor = aten::transpose(%2)
  %4 : Tensor = aten::relu(%3), scope: __module.a.c # m.py:2:0
  %5 : Tensor = aten::permute(%4)
  %6 : Tensor = aten::relu(%5), scope: __module.d # m.py:3:0
  %7 : Tensor = aten::tanh(%1) # m.py:4:0
  %8 : Tensor = aten::relu(%7), scope: __module.a.b # m.py:5:0
  return (%6, %8)"""
    dump = parse_dump([line.encode() for line in text.split("\n")])
    layers = layers_of(dump, Regions())
    assert [layers.of.get(id(node)) for node in dump.graph.nodes] == [
        *("a.b", "a", "a", "a.c", None, "d", None, "a.b")
    ]


def test_gradients_belong_to_differentiable_graphs_in_reverse_order() -> None:
    """As ``lambdaLiftReverse`` makes them: the values that a gradient takes are the
    last ones returned."""
    regions = Regions()
    regions.learn(("input",), Around((), (), (), (), ()))

    def returns(layer: str, *names: str) -> None:
        regions.keep(
            tuple(RegionOutput(name, "Tensor", (layer,)) for name in names)
        )

    def gradient(number: int, *names: str) -> object:
        inputs = ",\n      ".join(
            f"%{name} : Float(2, 4)" for name in (f"grad.{number}", *names)
        )
        text = f"graph({inputs}):\n  %9 : bool = prim::AutogradAllNonZero(%grad.{number})\n  return (%9)"
        around = regions.around_print(Print(text.encode(), 0), False)
        return None if around is None else around.captured[-len(names) :]

    returns("a", "x.1", "y.1")
    returns("other", "x.2", "z.1")
    returns("b", "x.3", "y.2")
    assert gradient(1, "q.5") is None
    assert gradient(2, "y.9") == (("b",),)
    assert gradient(3, "x.9", "7") == (
        ("other",),
        ("other",),
    )  # "7" can be the number of any value
    assert gradient(4, "y.8") == (("a",),)
    assert gradient(5, "y.8") is None


def test_torch_names_the_same_modules() -> None:
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(4)
            self.act = torch.nn.ReLU()

        def forward(self, x: object) -> object:
            return self.act(self.norm(x))

    model = torch.nn.ModuleDict(
        {"body": torch.nn.Sequential(Block(), Block()), "head": Block()}
    )
    model.forward = lambda x: model["head"](model["body"](x))
    graph = torch.jit.trace(model, torch.ones(2, 4)).inlined_graph
    dump = parse_dump([line.encode() for line in str(graph).rstrip().split("\n")])
    layers = layers_of(dump, Regions())
    ours = [
        layers.of.get(id(node))
        for node in dump.graph.walk()
        if node.kind.startswith("aten::")
    ]
    leaves = {
        name
        for name, module in model.named_modules()
        if not list(module.children())
    }
    assert set(ours) == leaves
    theirs = [
        node.scopeName()
        for node in graph.nodes()
        if node.kind().startswith("aten::")
    ]
    assert [scope.rpartition("__module.")[2] for scope in theirs] == ours


def test_a_gradient_is_of_the_layers_whose_values_it_takes() -> None:
    """Formulas have no scope: what the forward pass keeps for them has."""
    report = fusiondoc.parse(FOREIGN / "mobilenet_v3.trace.train.nvfuser.log.xz")
    layers = [
        one.layer
        for group in report.groups
        if group.phase == "backward"
        for one in group.instances
    ]
    assert layers == [
        f"features.{i}.block.{1 if i == 1 else 2}"
        for i in (11, 10, 9, 8, 7, 6, 5, 4, 1)
    ]


def test_a_second_plan_of_a_gradient_is_of_no_layer_that_is_guessed() -> None:
    """Its values were taken by the first one; which of the equal layers it is of,
    nothing tells."""
    report = fusiondoc.parse(FOREIGN / "convnext.script.train.nvfuser.log.xz")
    found = {
        group.id: {one.layer for one in group.instances} for group in report.groups
    }
    assert found["G9"] == {
        "features.3.0",
        "features.3.1",
        "features.3.2",
    } and found["G20"] == {None}
