"""The legacy executor fuses inside differentiable graphs at once; nothing in them
is fused later."""

from __future__ import annotations

from conftest import FIXTURES

from fusiondoc.api import parse

LOG = FIXTURES / "logs" / "legacy-2.13-regions.log.xz"


def test_operators_of_its_regions_have_reasons_and_not_more_runs() -> None:
    report = parse(LOG)
    assert {group.kind for group in report.groups} == {"FusionGroup"}
    assert "FD103" not in {row.reason.code for row in report.unfused}
    assert "FD103" not in {one.code for one in report.findings}
    assert not [one for one in report.findings if "--runs" in (one.advice or "")]
    reasons = {
        (row.op, (row.source or "").split(":")[1]): row.reason.code
        for row in report.unfused
        if row.phase == "forward"
    }
    assert reasons["aten::mm", "6"] == reasons["aten::softmax", "8"] == "FD233"
    assert (
        reasons["aten::mul", "6"] == "FD227"
    )  # the product with the weights stands between
