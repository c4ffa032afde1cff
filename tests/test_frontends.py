"""The registry of frontends: each kind of group belongs to the frontend whose fuser
made it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.fusers import (
    FRONTENDS,
    FUSER_OF_KIND,
    frontend_choices,
    frontend_of_group,
    fuser_title,
)

GOLDEN = sorted((ROOT / "fixtures" / "golden").glob("*.json"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("te.ops.ForwardLinearBiasActivation", "te"),
        ("InductorTriton", "dynamo"),
        *(
            (kind, "torchscript")
            for kind in ("CudaFusionGroup", "TensorExprGroup", "FusionGroup")
        ),
    ],
)
def test_a_kind_of_groups_belongs_to_its_frontend(kind: str, name: str) -> None:
    assert frontend_of_group(kind) is FRONTENDS[name]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_groups_of_saved_reports_are_of_torchscript_or_of_the_frontend_that_they_name(
    path: Any,
) -> None:
    report = json.loads(path.read_text("utf-8"))
    for group in report["groups"]:
        frontend = frontend_of_group(group["kind"])
        assert (frontend.name == "torchscript") == (group["kind"] in FUSER_OF_KIND)


def test_a_fuser_that_belongs_to_a_frontend_has_a_title() -> None:
    assert fuser_title("te") == "the operation fuser of Transformer Engine"
    assert set(frontend_choices()) - {"auto"} <= set(FRONTENDS)
