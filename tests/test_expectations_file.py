"""Reading files of expectations: errors with line and column, the JSON schema,
robustness."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from any_text import CHARACTERS
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from fusiondoc.errors import UsageError
from fusiondoc.expectations import RequiredCount, SourceRange, keys
from fusiondoc.expectations.keys import schema
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.codes import CODES

PUBLISHED = json.loads((ROOT / "docs" / "expectations.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(PUBLISHED)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("groups:\n  - ops: [add]\n    phse: forward\n", ["3:5: unknown key 'phse' in a group. Did you mean 'phase'?"]),
        ("gruops: [[add]]\n", ["1:1: unknown key 'gruops' in the file. Did you mean 'groups'?"]),
        ("max_fallbacks: 0\nmin_coverage: 90\n", ["2:15: min_coverage is a share from 0 to 1: write 90%, or 0.9"]),
        ("max_fallbacks: -1\n", ["1:16: max_fallbacks must be a whole number, not '-1'"]),
        ("groups:\n- [add, 5]\n", ["2:9: a plain list must be of aten::add, or add for short, not '5'; put it in quotes"]),
        ("groups:\n- {ops: [add], phase: forwards}", ["2:23: phase: 'forwards' is unknown. Did you mean 'forward'?"]),
        ("groups:\n- {phase: forward}", ["2:3: a group needs ops, set, contains, source, function, module or layer"]),
        ("groups:\n- {ops: [add], set: [add]}", ["2:3: a group takes only one of ops, set, contains"]),
        ("groups: []\n", ["1:9: groups is an empty list"]),
        ("when: {torch: 2.1}\nmax_fallbacks: 0", ["1:15: torch must be '2.1' or '>=1.12, <2.2', not '2.1'; put it in quotes"]),
        ("findings: {forbid: [FD999]}", ["1:21: forbid: there is no finding FD999 (fusiondoc explain lists them)"]),
        ("max_fallbacks: 0\nmax_fallbacks: 1\n", ["2:1: duplicate key 'max_fallbacks'"]),
        ("name: x\n", ["1:1: nothing is expected here"]),
        ("sections:\n- max_fallbacks: 0\nname: x\n", ["3:1: 'name' is not allowed next to 'sections'"]),
        ("groups:\n  - ops: [add\n", ["3:1: expected ',' or ']'", "that begins at 2:10"]),
        ("a: b: c\n", ["1:5: mapping values are not allowed here"]),
        ("max_fallbacks: 0\nx\x07\n", ["2:2: "]),
        ("- a\n", ["1:1: the file must be a mapping of"]),
        (
            "groups:\n- {ops: [add], phse: 1}\nnumber_of_groups: {at_leats: 2}\n",
            ["2:16: unknown key 'phse'", "3:20: unknown key 'at_leats' in number_of_groups. Did you mean 'at_least'?"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_line_and_column(
    text: str, problems: list
) -> None:
    with pytest.raises(UsageError) as error:
        loads(text, "f.yaml", CODES)
    for problem in problems:
        assert problem in error.value.message
    assert all(
        line.startswith("f.yaml:") for line in error.value.message.splitlines()
    )
    assert error.value.hint


def test_what_a_file_says() -> None:
    section = loads(
        "when: {fuser: nnc, torch: '>=2.0, <3'}\n"
        "groups:\n"
        "- [add, prim::X]\n"
        "- {set: [mul], source: [a/model.py:18-20, b.py:3, c.py], dtype: bool, exactly: 2}\n"
        "number_of_groups: {at_least: 1, at_most: 3}\n"
        "min_coverage: 90%\nmin_peak: 0.5\ntolerance: 5%\nfindings: {allow: [note]}\n",
        "f.yaml",
    ).sections[0]
    first, second = section.groups
    assert (first.ops, first.order, first.count) == (
        ("aten::add", "prim::X"),
        "sequence",
        RequiredCount(1),
    )
    assert (second.ops, second.order, second.count) == (
        ("aten::mul",),
        "set",
        RequiredCount(2, 2),
    )
    assert second.source == (
        SourceRange("a/model.py", 18, 20),
        SourceRange("b.py", 3, 3),
        SourceRange("c.py"),
    )
    assert (second.dtype, section.when.fuser, section.number_of_groups) == (
        ("bool",),
        ("nnc",),
        RequiredCount(1, 3),
    )
    assert (section.min_coverage, section.speed.peak, section.speed.tolerance) == (
        0.9,
        0.5,
        0.05,
    )
    assert section.findings.allow == ("note",)
    assert (second.at.line, second.at.column) == (4, 3)


def test_the_published_schema_is_made_from_the_table_of_keys() -> None:
    assert schema() == PUBLISHED, (
        "write json.dumps(schema(), indent=2) into docs/expectations.schema.json"
    )
    jsonschema.Draft7Validator.check_schema(PUBLISHED)


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "commands" / "check.md").read_text(encoding="utf-8")
    for table in (
        keys.FILE,
        keys.GROUP,
        keys.MODULE,
        keys.WHEN,
        keys.FINDINGS,
        keys.COUNTS,
        keys.ONE_KERNEL,
        keys.GRAPH,
    ):
        for key in table:
            assert f"`{key}`" in page, key


def test_the_file_in_the_examples_fits_the_schema() -> None:
    VALIDATOR.validate(
        yaml.safe_load((ROOT / "examples" / "fusions.yaml").read_text())
    )


EXCEPTION = {"model": "a", "reason": "b", "until": "2027-01-31", "max_fallbacks": 1}
ONE_SECTION = [{"max_fallbacks": 0}]
ONLY_RUN = [{"run": {"target": "m.py"}}]


def _value(field: keys.Field) -> st.SearchStrategy:
    good = {
        "layer": st.sampled_from(["encoder.layer.0", "encoder.*.output", "layer[1-4].[0,2]"]),
        "operator": st.sampled_from(["add", "aten::mul"]), "source": st.sampled_from(["m.py", "m.py:3", "m.py:3-5"]),
        "versions": st.sampled_from(["2.1", ">=1.12, <2.2"]), "finding": st.sampled_from(["FD301", "FD3xx", "error"]),
        "text": st.just("x"), "count": st.integers(0, 3), "positive": st.integers(1, 3),
        "rate": st.floats(0, 10), "share": st.sampled_from([0, 0.5, 1, "90%"]), "counts": st.integers(0, 3),
        "choice": st.sampled_from(field.choices or ("x",)), "group": st.lists(st.just("add"), min_size=1, max_size=2),
        "section": st.just({"max_fallbacks": 0}), "when": st.just({"gpu": "H"}), "findings": st.just({"expect": ["note"]}),
        "module": st.just({"layer": "encoder", "coverage": 0.5}), "run": st.just({"runs": 3}),
        "all": st.just({"max_fallbacks": 0}), "exception": st.just(EXCEPTION), "date": st.just("2027-01-31"),
        "flag": st.booleans(), "seed": st.integers(-3, 3), "value": st.sampled_from(["a", 1, 0.5, True]),
        "settings": st.just({"single_node": "on"}),
        "one kernel": st.just({"source": "m.py:3", "ops": ["add"]}), "graph": st.just({"max_kernels": 2}),
    }[field.kind]  # fmt: skip
    bad = st.sampled_from(
        [
            -1,
            2.5,
            "",
            "?",
            None,
            True,
            [],
            {},
            "FD1",
            5,
            "101%",
            ["add", "add"],
            {"x": 1},
        ]
    )
    one = good if field.many == "no" else st.lists(good, max_size=2)
    return st.one_of(one, one, one, good, bad)


def _mapping(table: dict) -> st.SearchStrategy:
    known = {key: _value(field) for key, field in table.items()}
    return st.fixed_dictionaries({}, optional=known).flatmap(
        lambda one: st.sampled_from([one, one, one, one, {**one, "other": 1}])
    )


@settings(max_examples=examples(300), deadline=None)
@given(
    st.one_of(
        _mapping(keys.SECTION),
        _mapping(keys.GROUP).map(lambda group: {"groups": [group]}),
        _mapping(keys.MODULE).map(lambda module: {"modules": [module]}),
        _mapping(keys.ONE_KERNEL).map(lambda lines: {"one_kernel": [lines]}),
        _mapping(keys.GRAPH).map(lambda graph: {"graphs": [graph]}),
        _mapping(keys.WHEN).map(lambda when: {"when": when, "max_fallbacks": 0}),
        _mapping(keys.FINDINGS).map(lambda findings: {"findings": findings}),
        _mapping(keys.COUNTS).map(lambda counts: {"number_of_groups": counts}),
        _mapping(keys.SECTION).map(lambda section: {"sections": [section]}),
        _mapping(keys.RUN).map(lambda run: {"run": run, "max_fallbacks": 0}),
        _mapping(keys.ALL).map(
            lambda limits: {"all": limits, "sections": ONE_SECTION}
        ),
        _mapping(keys.ALL).map(
            lambda limits: {"all": limits, "sections": ONLY_RUN}
        ),
        _mapping(keys.SECTION).map(
            lambda section: {"all": {"no": "FD301"}, "sections": [section]}
        ),
        _mapping(keys.EXCEPTION).map(
            lambda one: {"all": {"except": [one]}, "sections": ONE_SECTION}
        ),
    )
)
def test_schema_and_program_take_the_same_files(data: dict) -> None:
    text = yaml.safe_dump(data)
    try:
        loads(text, "f.yaml")
        taken = True
    except UsageError:
        taken = False
    assert taken == VALIDATOR.is_valid(data), text


@settings(max_examples=examples(300), deadline=None)
@given(
    st.one_of(
        st.text(CHARACTERS, max_size=60),
        st.lists(
            st.sampled_from(
                ["groups", ":", " ", "\n", "- ", "  ", "[", "]", "{", "}", "ops", ", ", "add", "&a", "*a", "<<", "? ",
                 "!!int", "|", "#", "'", '"', "0x", ".nan", "2001-01-01", "\t", "%", "---\n"]
            ),
            max_size=25,
        ).map("".join),
    )
)  # fmt: skip
def test_no_text_gives_more_than_an_error(text: str) -> None:
    try:
        loads(text, "f.yaml", CODES)
    except UsageError as error:
        assert error.message.startswith("f.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1100,
        "a: &a [*a]",
        "groups: &a [*a, *a]",
        "{" * 1100,
        "max_fallbacks: !!int x",
    ],
)
def test_texts_that_break_parsers(text: str) -> None:
    with pytest.raises(UsageError):
        loads(text, "f.yaml")
