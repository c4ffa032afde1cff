"""Layers for reading, and where the reports show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.model.operator_places import fold, folded, layers_of_kernels
from fusiondoc.model.report import Report
from fusiondoc.model.source import user_line
from fusiondoc.views.formatting import near, where_from


@pytest.mark.parametrize(
    ("layers", "patterns"),
    [
        (
            [f"encoder.layer.{i}.output" for i in range(12)],
            ["encoder.layer.[0-11].output"],
        ),
        ([f"e.layer_{i}" for i in (0, 1, 2, 5)], ["e.layer_[0-2,5]"]),
        (
            [f"layer{a}.{b}.bn{c}" for a in (1, 2) for b in (0, 1) for c in (1, 2)],
            ["layer[1-2].[0-1].bn[1-2]"],
        ),
        (["layer1.0.bn1", "layer1.1.bn2"], ["layer1.0.bn1", "layer1.1.bn2"]),
        (["a.0.x", "b", "a.1.x", None], ["a.[0-1].x", "b"]),
        (["a.01", "a.2"], ["a.01", "a.2"]),
        ([], []),
    ],
)
def test_paths_that_differ_in_numbers_are_one(
    layers: list[str | None], patterns: list[str]
) -> None:
    assert fold(layers) == patterns


def test_many_patterns_are_counted() -> None:
    assert folded(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


def test_each_layer_of_a_trace_has_kernels_of_its_own(bert: Report) -> None:
    layers = layers_of_kernels(bert)
    norms = [
        group for group in bert.groups if "encoder.layer.0.output" in group.layers
    ]
    assert len(norms) == 1
    assert [layers[kernel] for kernel in norms[0].kernels] == [
        (f"encoder.layer.{i}.output",) for i in range(3)
    ]


@pytest.mark.parametrize("format_", ["text", "html", "markdown", "sarif"])
def test_reports_show_folded_layers(bert: Report, format_: str) -> None:
    text = fusiondoc.render(bert, format_)
    text = text.decode() if isinstance(text, bytes) else text
    assert "encoder.layer.[0-2].attention" in text


def test_layers_stand_before_the_path(bert: Report) -> None:
    text = str(fusiondoc.render(bert, "text"))
    lines = text.split("\n")
    (at,) = (
        i
        for i, line in enumerate(lines)
        if line.strip().startswith("aten::gelu x3  ")
    )
    assert "encoder.layer.[0-2].intermediate.intermediate_act_fn" in lines[at]
    assert lines[at + 1].strip() == "transformers/activations.py:78:0"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "/env/lib/python3.8/site-packages/transformers/activations.py:78:0",
            "transformers/activations.py:78:0",
        ),
        ("site-packages/torch/nn/functional.py:1:2", "torch/nn/functional.py:1:2"),
        ("/usr/lib/python3/dist-packages/numpy/core.py:1", "numpy/core.py:1"),
        (
            r"C:\py\Lib\site-packages\torch\nn\functional.py:1:2",
            r"torch\nn\functional.py:1:2",
        ),
        ("/opt/lab/torch/nn/functional.py:1:2", "torch/nn/functional.py:1:2"),
        (
            "/opt/lab/site/transformers/activations.py:78:0",
            "transformers/activations.py:78:0",
        ),
        ("/home/me/model.py:3:1", "/home/me/model.py:3:1"),
        (f"{Path.cwd()}/model.py:3:1", "model.py:3:1"),
        ("<string>:3:1", "<string>:3:1"),
    ],
)
def test_paths_are_short(source: str, shown: str) -> None:
    assert near(source) == shown


@pytest.mark.parametrize(
    ("user_source", "source", "shown"),
    [
        (
            "m.py:12",
            "/e/site-packages/torch/nn/functional.py:9:4",
            "m.py:12 (torch/nn/functional.py:9)",
        ),
        ("m.py:12", "m.py:12:4", "m.py:12"),
        ("m.py:12", "<string>:3:1", "m.py:12"),
        (
            None,
            "/e/site-packages/torch/nn/functional.py:9:4",
            "torch/nn/functional.py:9:4",
        ),
        (None, None, ""),
    ],
)
def test_the_line_of_a_package_stands_beside_its_caller(
    user_source: str | None, source: str | None, shown: str
) -> None:
    assert where_from(user_source, source) == shown


def test_files_of_packages_are_not_the_users() -> None:
    assert user_line("/opt/lab/site/transformers/activations.py:78:0") is None
    assert user_line("/opt/lab/site/mine.py:78:0") == "/opt/lab/site/mine.py:78"


def test_the_page_shows_the_source_of_a_package_that_is_at_hand(
    bert: Report,
) -> None:
    class Kept:
        def source(self, file: str) -> str | None:
            return (
                "def gelu():\n" * 80
                if file.endswith("transformers/activations.py")
                else None
            )

        def log(self, lines: object, graphs: object) -> dict:
            return {}

    page = str(fusiondoc.render(replace(bert, texts=Kept()), "html")).replace(
        "<wbr>", ""
    )
    section = page[page.index('<section id="source"') :]
    section = section[: section.index("</section>")]
    assert "<code>transformers/activations.py</code>" in section
    assert (
        "aten::gelu ×3 not fused" in section
        and "torch/nn/functional.py" not in section
    )
