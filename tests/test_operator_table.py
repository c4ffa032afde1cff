"""The table of operators against the schemas, the methods and the compiler of the
installed torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from running import python

from fusiondoc.changes.recipes import RECIPES
from fusiondoc.fusers import taken_by_any
from fusiondoc.fusers.nvfuser import takes as nvfuser
from fusiondoc.operators import (
    BY_NAME,
    ELEMENTWISE,
    FLAGS,
    OF_EACH_ELEMENT,
    OPERATORS,
    RANDOM,
    WITH_PARTNER,
    WITHOUT_PLAIN,
    in_place_name,
    is_in_place,
    of,
    plain_name,
    sign_of,
)
from fusiondoc.operators.kinds import Fit, OperatorKind

NODES = {"prim::If", "prim::Loop", "prim::ConstantChunk"}
"""Rows of nodes that have no schema of tensors."""


@pytest.fixture(scope="module")
def torch_has() -> Any:
    pytest.importorskip("torch")
    done = python(
        Path(__file__).parent / "live" / "operator_table.py",
        *sorted(OF_EACH_ELEMENT),
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_each_operator_has_one_row() -> None:
    assert len(BY_NAME) == len(OPERATORS) > 300


def test_what_fusers_take_and_recipes_replace_has_a_row() -> None:
    of_fusers = {op for op in taken_by_any() if op.startswith("prim::")} - NODES
    assert taken_by_any() - of_fusers <= set(BY_NAME)
    assert of_fusers - set(nvfuser.COPY_OF) == {
        "prim::FusedConcat",
        "prim::ListConstruct",
        "prim::add_optional",
    }
    assert {
        f"aten::{name}" for recipe in RECIPES for name in recipe.of.split()
    } <= set(BY_NAME)


@pytest.mark.torch
def test_operators_exist_and_take_as_many_tensors(torch_has: Any) -> None:
    tensors = torch_has["tensors"]
    wrong = [
        (row.name, row.tensors, tensors.get(row.name, "no schema"))
        for row in OPERATORS
        if row.name not in NODES
        and row.tensors != tensors.get(row.name, "no schema")
    ]
    assert wrong == []


@pytest.mark.torch
def test_arguments_that_may_be_left_out_have_the_values_of_torch(
    torch_has: Any,
) -> None:
    stated = {
        row.short: list(map(float, row.defaults))
        for row in OPERATORS
        if row.defaults
    }
    assert stated == torch_has["defaults"]


TYPES = {
    bool: {"bool"},
    int: {"int", "number"},
    float: {"float", "number"},
    str: {"str"},
    Fit.POSITIVE: {"Tensor", "number"},
    Fit.SIZES: {"List[int]"},
    Fit.LAST_SIZE: {"List[int]"},
}
"""Type of a sample, or what it must fit -> the types of arguments that take it."""


@pytest.mark.torch
def test_samples_fit_the_arguments_of_an_overload(torch_has: Any) -> None:
    with_samples = [row for row in OPERATORS if row.samples]
    assert len(with_samples) > 30
    for row in with_samples:
        overloads = torch_has["arguments"][row.name]
        assert any(fits(row.samples, types) for types in overloads), row.short


def fits(samples: Mapping[int, object], types: list[str]) -> bool:
    for index, value in samples.items():
        if index >= len(types):
            return False
        wanted = TYPES[value if isinstance(value, Fit) else type(value)]
        plain = types[index].removeprefix("Optional[").removesuffix("]")
        if types[index] not in wanted and plain not in wanted:
            return False
    return True


@pytest.mark.torch
def test_partners_in_place_exist(torch_has: Any) -> None:
    assert len(WITH_PARTNER) > 100
    partners = {f"aten::{in_place_name(op)}" for op in WITH_PARTNER}
    assert partners <= set(torch_has["tensors"])
    assert all(
        is_in_place(op) and f"aten::{plain_name(op)}" in WITH_PARTNER
        for op in partners
    )
    # Without the underscore the others are no methods either; ``requires_grad`` is
    # an attribute.
    methods = set(torch_has["methods"]) - {"requires_grad"}
    assert {plain_name(op) for op in WITHOUT_PLAIN} & methods == set()


@pytest.mark.torch
def test_views_are_those_whose_schema_aliases_the_input(torch_has: Any) -> None:
    aliases = set(torch_has["aliases"]) & set(BY_NAME)
    # Their schemas do not say so: ``_unsafe_view`` has only a version counter of
    # its own (aten/src/ATen/native/TensorShape.cpp), ``dropout`` returns its input
    # in evaluation (Dropout.cpp), and ``type_as`` where it has that type already
    # (TensorConversions.cpp).
    own = {"aten::_unsafe_view", "aten::dropout", "aten::type_as"}
    assert of(OperatorKind.VIEW | OperatorKind.HANDS_ON) - aliases == own
    assert aliases <= of(OperatorKind.VIEW | OperatorKind.HANDS_ON)


@pytest.mark.torch
def test_what_works_on_each_element_has_the_tag_of_torch(torch_has: Any) -> None:
    pointwise = set(torch_has["pointwise"]) & set(BY_NAME)
    assert pointwise - ELEMENTWISE <= {"aten::clone"}
    assert len(pointwise) > 100
    # Made of pointwise operators, or of tensors of one element: torch tags the
    # parts.
    assert ELEMENTWISE - pointwise == {
        f"aten::{name}"
        for name in [
            "__and__",
            "__or__",
            "_autocast_to_full_precision",
            "_autocast_to_reduced_precision",
            "_cast_Float",
            "_fused_dropout",
            "alpha_dropout",
            "dropout",
            "floor_divide",
            "hardswish",
            "isreal",
            "log_sigmoid",
            "native_dropout",
            "_prelu_kernel",
            "prelu",
            "rrelu_with_noise",
            "type_as",
        ]
    }
    assert torch_has["mixing"] == []


@pytest.mark.torch
def test_masks_are_made_by_what_gives_truth_values_of_numbers(
    torch_has: Any,
) -> None:
    assert of(OperatorKind.TRUTH) == set(torch_has["truth"]) & set(BY_NAME)


@pytest.mark.torch
def test_what_draws_random_numbers_has_the_tag_of_torch(torch_has: Any) -> None:
    assert set(torch_has["random"]) & set(BY_NAME) == RANDOM


@pytest.mark.torch
def test_signs_are_what_expressions_and_statements_make(torch_has: Any) -> None:
    signs = torch_has["signs"]
    by_sign = {
        (op, sign) for sign, made in signs.items() for ops in made for op in ops
    }
    assert {(row.name, row.sign) for row in OPERATORS if row.sign} <= by_sign
    statements = {
        op: sign for sign, (_, *made) in signs.items() for ops in made for op in ops
    }
    for op, sign in statements.items():
        if (
            is_in_place(op) and op != "aten::fmod_"
        ):  # of ``x %= y`` in a script; ``x % y`` is remainder
            assert sign_of(op) == sign, op
    assert (
        sign_of("aten::fmod_") is None
        and sign_of("aten::eq_") is None
        and sign_of("aten::add") is None
    )


@pytest.mark.torch
def test_flags_stand_where_the_signatures_have_them(torch_has: Any) -> None:
    assert torch_has["flags"] == FLAGS
