"""Expectations that name the modules of a group."""

from __future__ import annotations

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.errors import UsageError
from fusiondoc.expectations.expectation import is_in_layer
from fusiondoc.expectations.match import Outcome, check
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import updated
from fusiondoc.model.report import Report


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


def outcome(text: str, report: Report) -> Outcome:
    (one,) = check(loads(text, "f.yaml").sections[0], report)
    return one


@pytest.mark.parametrize(
    ("layer", "at_least", "holds"),
    [
        ("encoder.layer.*.output", 3, True),
        ("encoder.layer.*.output", 4, False),
        ("encoder.layer.[0-1].output", 2, True),
        ("encoder.layer.[0-1].output", 3, False),
        ("encoder.layer.[0,2].output", 2, True),
        ("encoder.layer.2", 2, True),  # its own and that of the attention in it
        ("encoder", 6, True),
        ("decoder", 1, False),
    ],
)
def test_the_nodes_in_a_module_count(layer: str, at_least: int, holds: bool, bert: Report) -> None:
    text = f"groups:\n- ops: [dropout, add, layer_norm]\n  layer: '{layer}'\n  at_least: {at_least}\n"
    assert outcome(text, bert).holds is holds


def test_several_modules_and_none(bert: Report) -> None:
    two = "groups:\n- contains: [layer_norm]\n  layer: [embeddings, encoder.layer.0.output]\n  exactly: 2\n"
    assert outcome(two, bert).holds
    assert outcome("groups:\n- layer: pooler\n  exactly: 0\n", bert).holds


def test_a_miss_says_where_the_group_is(bert: Report) -> None:
    missed = outcome("groups:\n- ops: [dropout, add, layer_norm]\n  layer: decoder.*\n", bert)
    assert not missed.holds
    assert missed.expected == "dropout, add, layer_norm in layer decoder.*"
    assert missed.why == "it is in encoder.layer.[0-2].attention.output, not in decoder.*"


def test_a_log_without_layers_holds_no_layer() -> None:
    report = fusiondoc.parse(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz")
    missed = outcome("groups:\n- layer: encoder\n", report)
    assert not missed.holds and "the log does not contain its layer" in (missed.why or "")


def test_update_keeps_what_holds_and_counts_again(bert: Report) -> None:
    text = "groups:\n- contains: [add, layer_norm]\n  layer: encoder.layer.*.output  # kept\n  at_least: 12\n"
    new = updated(text, "f.yaml", bert)
    assert "  layer: encoder.layer.*.output  # kept\n  at_least: 3\n" in new
    assert all(one.holds for one in check(loads(new, "f.yaml").sections[0], bert))


@pytest.mark.parametrize("layer", ["encoder..[", "[a-b]", "encoder.layer.[0-", "a b", ".encoder"])
def test_what_is_no_module_is_told(layer: str) -> None:
    with pytest.raises(UsageError, match=r"layer: .* is not encoder\.layer\.0\.output"):
        loads(f"groups:\n- layer: '{layer}'\n", "f.yaml")


@pytest.mark.parametrize(
    ("layer", "pattern", "inside"),
    [
        ("encoder.layer.10.output", "encoder.layer.1", False),
        ("encoder.layer.10.output", "encoder.layer.[0-9]", False),
        ("encoder.layer.10.output", "encoder.layer.[0-11]", True),
        ("encoder.layer_3", "encoder.layer_[2-4]", True),
        ("encoder.layer.1.output", "*.layer", True),
        ("encoder.layer.1.output", "enc*.1", False),
    ],
)
def test_patterns(layer: str, pattern: str, inside: bool) -> None:
    assert is_in_layer(layer, pattern) is inside
