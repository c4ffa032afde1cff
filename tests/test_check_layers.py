"""Expectations that name the modules of a group, or the share of a module that is
fused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.errors import UsageError
from fusiondoc.expectations import is_in_layer
from fusiondoc.expectations.match import check
from fusiondoc.expectations.outcome import ExpectationOutcome
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import updated
from fusiondoc.model.operator_places import InLayer, operators_by_layer
from fusiondoc.model.report import Coverage, Report


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


def outcome(text: str, report: Report) -> ExpectationOutcome:
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
def test_the_nodes_in_a_module_count(
    layer: str, at_least: int, holds: bool, bert: Report
) -> None:
    text = f"groups:\n- ops: [dropout, add, layer_norm]\n  layer: '{layer}'\n  at_least: {at_least}\n"
    assert outcome(text, bert).holds is holds


def test_several_modules_and_none(bert: Report) -> None:
    two = "groups:\n- contains: [layer_norm]\n  layer: [embeddings, encoder.layer.0.output]\n  exactly: 2\n"
    assert outcome(two, bert).holds
    assert outcome("groups:\n- layer: pooler\n  exactly: 0\n", bert).holds


def test_a_miss_says_where_the_group_is(bert: Report) -> None:
    missed = outcome(
        "groups:\n- ops: [dropout, add, layer_norm]\n  layer: decoder.*\n", bert
    )
    assert not missed.holds
    assert missed.expected == "dropout, add, layer_norm in layer decoder.*"
    assert (
        missed.why
        == "it is in encoder.layer.[0-2].attention.output, not in decoder.*"
    )


def test_a_log_without_layers_holds_no_layer() -> None:
    report = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
    )
    missed = outcome("groups:\n- layer: encoder\n", report)
    assert not missed.holds and "the log does not contain its layer" in (
        missed.why or ""
    )


def test_update_keeps_what_holds_and_counts_again(bert: Report) -> None:
    text = "groups:\n- contains: [add, layer_norm]\n  layer: encoder.layer.*.output  # kept\n  at_least: 12\n"
    new = updated(text, "f.yaml", bert)
    assert "  layer: encoder.layer.*.output  # kept\n  at_least: 3\n" in new
    assert all(one.holds for one in check(loads(new, "f.yaml").sections[0], bert))


@pytest.mark.parametrize(
    "layer", ["encoder..[", "[a-b]", "encoder.layer.[0-", "a b", ".encoder"]
)
def test_what_is_no_module_is_told(layer: str) -> None:
    with pytest.raises(
        UsageError, match=r"layer: .* is not encoder\.layer\.0\.output"
    ):
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


def test_a_share_of_a_module(bert: Report) -> None:
    has = operators_by_layer(bert)
    part = sum(
        (has[layer] for layer in has if f"{layer}.".startswith("encoder.layer.1.")),
        InLayer(),
    )
    assert part.share is not None and 0 < part.fused < part.fused + part.unfused
    reached = outcome("modules:\n- {layer: encoder.layer.1, coverage: 10%}\n", bert)
    assert reached.holds and reached.value == part.share
    missed = outcome("modules:\n- layer: encoder.layer.*\n  coverage: 0.99\n", bert)
    assert not missed.holds and missed.at is not None and missed.at.line == 2
    assert missed.expected == "99% of encoder.layer.* in groups"
    every = sum(
        (
            has[layer]
            for layer in has
            if re.match(r"encoder\.layer\.\d+(\.|\Z)", layer)
        ),
        InLayer(),
    )
    assert part.fused < every.fused
    assert missed.found.endswith(
        f"%, {every.fused} of {every.fused + every.unfused} operators"
    )
    assert "not fused are linear (FD" in (missed.why or "")
    assert ", torch/nn/modules/linear.py:" in (missed.why or "")


def test_a_module_that_is_not_there(bert: Report) -> None:
    missed = outcome("modules:\n- {layer: decoder, coverage: 0}\n", bert)
    assert not missed.holds and missed.found == "no operator of that module"
    assert (
        missed.why == "the outermost modules are embeddings, encoder.layer, pooler"
    )


def test_a_share_that_the_log_cannot_tell(bert: Report) -> None:
    unknown = replace(
        bert, coverage=Coverage(0, None, None, unknown="only inner plans")
    )
    missed = outcome("modules:\n- {layer: encoder, coverage: 0}\n", unknown)
    assert not missed.holds and missed.found == "unknown: only inner plans"
    plain = replace(bert, groups=(), unfused=())
    assert "does not name modules" in (
        outcome("modules:\n- {layer: encoder, coverage: 0}\n", plain).why or ""
    )
    assert "modules:" not in updated("", "f.yaml", plain) + updated(
        "", "f.yaml", unknown
    )


def test_update_writes_and_lowers_shares(bert: Report) -> None:
    new = updated("", "f.yaml", bert)
    assert all(one.holds for one in check(loads(new, "f.yaml").sections[0], bert))
    found = [one.layer for one in loads(new, "f.yaml").sections[0].modules]
    assert found == [
        "embeddings",
        "encoder.layer",
    ]  # nothing of the pooler is in a group
    text = (
        "modules:\n- layer: decoder\n  coverage: 0.5\n"
        "- layer: encoder.layer.*  # kept\n  coverage: 99%  # too high\nmax_fallbacks: 0\n"
    )
    lowered = updated(text, "f.yaml", bert)
    assert (
        "decoder" not in lowered
        and "encoder.layer.*  # kept\n  coverage: 0." in lowered
    )
    assert updated("max_fallbacks: 0\n", "f.yaml", bert) == "max_fallbacks: 0\n"


def test_a_module_that_has_another_name_now_stays_watched(bert: Report) -> None:
    """--update took it out, and nothing said that the module of the new name is
    fused."""
    before = "modules:\n- layer: encoder.layers.*\n  coverage: 0.4\n- layer: pooler\n  coverage: 0\n"
    after = [
        one.layer
        for one in loads(updated(before, "f.yaml", bert), "f.yaml")
        .sections[0]
        .modules
    ]
    named = {
        one.layer
        for one in loads(updated("", "f.yaml", bert), "f.yaml").sections[0].modules
    }
    assert (
        "encoder.layers.*" not in after
        and named <= set(after)
        and len(after) == len(set(after))
    )


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("{layer: encoder}", "a module needs coverage: 0.9 or 90%"),
        ("{coverage: 0.5}", "a module needs layer: "),
        (
            "{layer: encoder, coverage: 80}",
            "coverage is a share from 0 to 1: write 80%, or 0.8",
        ),
        (
            "{layer: encoder, coverage: 0.5, ops: [add]}",
            "unknown key 'ops' in a module",
        ),
        ("encoder", "a module must be a mapping of layer or coverage"),
    ],
)
def test_what_is_no_share_of_a_module_is_told(item: str, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        loads(f"modules:\n- {item}\n", "f.yaml")
