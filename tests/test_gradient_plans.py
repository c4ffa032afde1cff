"""A gradient's executor that makes a further plan, for other gradients that are
defined."""

from __future__ import annotations

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.model.report import Report


def log(name: str) -> Report:
    return fusiondoc.parse(FIXTURES / "logs" / f"nnc-2.13-{name}-gradients.log.xz")


def test_its_groups_are_a_specialisation_and_no_instances() -> None:
    forward, backward, again = log("other").groups
    assert (backward.phase, again.phase) == ("backward", "backward")
    assert (again.respecialises, again.specialisation) == (backward.id, 2)
    assert len(again.nodes) < len(backward.nodes)
    assert log("other").coverage.ops_fused == len(forward.nodes) + len(
        backward.nodes
    )


@pytest.mark.parametrize("name, told", [("other", 1), ("same", 0)])
def test_it_is_told_and_what_is_advised_avoids_it(name: str, told: int) -> None:
    """The second log is of the same program, with the advice followed
    (fixtures/logs/other_gradients.py)."""
    found = [one for one in log(name).findings if one.code == "FD305"]
    assert len(found) == told
    for one in found:
        assert (
            "other gradients were defined" in one.message
            and "0 * output.sum()" in (one.advice or "")
        )


def test_under_nvfuser_the_first_plans_have_the_groups_that_torch_lists() -> None:
    """Passes rewrite some operators of the copy that becomes the second plan."""
    groups = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-2.1.2-other-gradients.log.xz"
    ).groups
    assert (
        sum(len(group.instances) for group in groups if group.specialisation == 1)
        == 5
    )
    assert [group.specialisation for group in groups if group.respecialises] == [2]


def test_gradients_of_two_regions_with_the_same_operators_have_a_first_plan_each() -> (
    None
):
    """torch's graph API lists three groups of gradients
    (fixtures/logs/alike_gradients.py)."""
    groups = fusiondoc.parse(
        FIXTURES / "logs" / "nnc-2.13-alike-gradients.log.xz"
    ).groups
    assert [group.phase for group in groups] == ["forward"] * 3 + ["backward"] * 3
    assert {(group.specialisation, group.count) for group in groups} == {(1, 1)}
