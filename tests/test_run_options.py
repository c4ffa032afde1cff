"""The table of run options: its typed views agree with it, and every option
survives the way from a command line to a request, to the JSON of a capture and back
to a command line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from command_line import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import examples

import fusiondoc
from fusiondoc.captures.python_options import checked_options
from fusiondoc.captures.request import (
    KeptRequest,
    KeptTarget,
    RunRequest,
    TargetSpec,
)
from fusiondoc.cli.diagnose import command
from fusiondoc.cli.options import launcher_arguments, make_request
from fusiondoc.errors import UsageError
from fusiondoc.model.run_options import (
    BY_NAME,
    RUN_OPTIONS,
    Kind,
    Offer,
    RunOption,
    offered,
)
from fusiondoc.model.source import Options
from fusiondoc.testing import Fusion

TYPES: dict[Kind, Any] = {
    Kind.FLAG: bool,
    Kind.NUMBER: int,
    Kind.SEED: int,
    Kind.SECONDS: float,
    Kind.TEXT: str,
    Kind.CHOICE: str,
    Kind.CHOICES: tuple[str, ...],
    Kind.TEXTS: tuple[str, ...],
    Kind.NAMES: tuple[str, ...],
    Kind.SETTINGS: Mapping[str, str],
}
SEVERAL = (Kind.CHOICES, Kind.TEXTS, Kind.NAMES, Kind.SETTINGS)


# The typed views


@pytest.mark.parametrize("option", RUN_OPTIONS, ids=lambda option: option.name)
def test_a_request_has_the_option_with_its_type_and_default(
    option: RunOption,
) -> None:
    wanted = (
        TYPES[option.kind]
        if option.default is not None
        else TYPES[option.kind] | None
    )
    assert get_type_hints(RunRequest)[option.name] == wanted
    request = RunRequest(TargetSpec("m.py", "file"), ROOT)
    assert getattr(request, option.name) == option.default


def test_a_capture_keeps_all_of_them_and_none_more() -> None:
    hints = get_type_hints(Options)
    assert sorted(hints) == sorted(option.name for option in RUN_OPTIONS)
    for option in RUN_OPTIONS:
        kept = hints[option.name]
        assert kept == (
            TYPES[option.kind]
            if option.kind in SEVERAL
            else TYPES[option.kind] | None
        )


def test_the_function_takes_what_the_table_says() -> None:
    """With these defaults; None of a parameter stands for what cannot be written as
    a default."""
    parameters = inspect.signature(fusiondoc.diagnose).parameters
    assert {name for name in parameters if name in BY_NAME} == set(
        offered(Offer.PYTHON)
    )
    for name in offered(Offer.PYTHON):
        assert parameters[name].default in (BY_NAME[name].default, None), name


def test_the_fixture_names_what_it_takes() -> None:
    for name in offered(Offer.TESTS):
        assert f"``{name}``" in str(Fusion.__doc__), name


def test_every_option_of_a_command_is_written_once() -> None:
    flags = [option.flag for option in RUN_OPTIONS if option.flag is not None]
    assert len(flags) == len(set(flags))
    for option in RUN_OPTIONS:
        written_apart = option.name in ("script_args", "launcher")
        commands = Offer.COMMANDS | Offer.DIAGNOSE
        assert (option.flag is not None or written_apart) == bool(
            option.offers & commands
        )


# From a command line to a request, and back


def request_of(words: Sequence[str]) -> RunRequest:
    """What ``fusiondoc`` makes of these arguments, up to the start of the run."""
    name, *arguments = words
    assert name == "diagnose"
    with command.make_context("fusiondoc diagnose", arguments) as context:
        given = dict(context.params, launcher=launcher_arguments())
        request = make_request(given.pop("target"), given.pop("script_args"), given)
    return replace(request, command=())


def kept(request: RunRequest) -> KeptRequest:
    """As it is read from the file of a capture."""
    content = KeptRequest(
        target=KeptTarget(**request.target.as_json()), options=request.options()
    ).as_json()
    return KeptRequest.from_json(json.loads(json.dumps(content)))


TEXT = st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]),
    min_size=1,
)
VALUES: dict[Kind, Any] = {
    Kind.FLAG: st.booleans(),
    Kind.NUMBER: st.integers(1, 2**40),
    Kind.SEED: st.integers(-(2**63), 2**64 - 1),
    Kind.SECONDS: st.floats(0.001, 1e9) | st.integers(1, 10**9),
    Kind.TEXT: TEXT,
    Kind.TEXTS: st.lists(TEXT, max_size=3).map(tuple),
    Kind.NAMES: st.lists(
        st.from_regex(r"[a-z_]+", fullmatch=True), max_size=3, unique=True
    ).map(tuple),
    Kind.SETTINGS: st.fixed_dictionaries(
        {},
        optional={
            "single_node": st.sampled_from(["on", "off"]),
            "profiled_runs": st.just("3"),
        },
    ),
}


@st.composite
def chosen(draw: st.DrawFn) -> dict[str, Any]:
    """Values of some of the options that a command line has."""
    values: dict[str, Any] = {}
    for option in RUN_OPTIONS:
        if option.flag is None or not draw(st.booleans()):
            continue
        if option.kind is Kind.CHOICE:
            values[option.name] = draw(st.sampled_from(option.choices))
        elif option.kind is Kind.CHOICES:
            values[option.name] = tuple(
                draw(st.lists(st.sampled_from(option.choices), max_size=3))
            )
        else:
            values[option.name] = draw(VALUES[option.kind])
    if values.get("script"):
        values["script_args"] = draw(VALUES[Kind.TEXTS])
    else:
        values.pop("step_function", None)
    if values.get("freeze"):
        values.pop("no_freeze", None)
    return values


def typed(values: Mapping[str, Any]) -> list[str]:
    """As somebody types them, with the options that have their default."""
    words = []
    for name, value in values.items():
        option = BY_NAME[name]
        if option.flag is None:
            continue
        if option.kind is Kind.FLAG:
            words += [option.flag] * value
        elif option.kind is Kind.SETTINGS:
            for setting, text in value.items():
                words += [option.flag, f"{setting}={text}"]
        elif option.kind in SEVERAL:
            for text in value:
                words += [option.flag, text]
        else:
            words += [option.flag, str(value)]
    return words


MODEL = str(ROOT / "examples" / "bias_gelu.py")


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(chosen(), st.booleans())
def test_every_option_comes_back_from_its_capture(
    values: dict[str, Any], as_module: bool
) -> None:
    words = ["diagnose", MODEL, *typed(values)]
    if values.get("script") and as_module:
        words[1:2] = ["-m", "package.train"]
        words.remove("--script")
    arguments = values.get("script_args", ())
    if arguments:
        words += ["--", *arguments]
    request = request_of(words)
    for name, value in values.items():
        assert getattr(request, name) == value, name
    read = kept(request)
    assert read.options == request.options()
    assert request_of(read.argv()) == request
    assert request_of(request.argv()) == request


@pytest.mark.parametrize(
    "launcher",
    [
        ("--nproc-per-node", "2"),
        ("--nproc-per-node", "gpu", "--max-restarts", "3"),
        (
            "--nnodes",
            "2",
            "--nproc-per-node",
            "4",
            "--rdzv-endpoint",
            "my_host:29400",
        ),
    ],
)
def test_options_of_torchs_launcher_come_back(launcher: tuple[str, ...]) -> None:
    request = request_of(
        ["diagnose", MODEL, "--script", *launcher, "--", "--epochs", "1"]
    )
    assert request.launcher
    assert request_of(kept(request).argv()) == request


def test_what_follows_replaces_and_another_command_gets_what_it_takes() -> None:
    asked = kept(
        request_of(
            [
                "diagnose",
                MODEL,
                "--runs",
                "7",
                "--verify",
                "--no-freeze",
                "--knob",
                "guard=on",
            ]
        )
    )
    assert asked.argv(("--runs", "14", "--freeze", "--knob", "guard=off")) == [
        *(
            "diagnose",
            MODEL,
            "--verify",
            "--runs",
            "14",
            "--freeze",
            "--knob",
            "guard=off",
        )
    ]
    assert "--verify" not in asked.argv(command="fix")


# From Python


def test_python_values_are_those_of_the_command_line() -> None:
    given = {
        "fuser": "nnc",
        "knobs": {"single_node": True, "profiled_runs": 3},
        "dumps": "ptx",
        "seed": 7,
        "timeout": 60,
        "device": None,
        "freeze": 1,
    }
    words = "--fuser nnc --knob single_node=on --knob profiled_runs=3 --dump ptx --seed 7 --timeout 60 --freeze"
    request = request_of(["diagnose", MODEL, *words.split()])
    found = checked_options(given, Offer.PYTHON)
    assert found == {name: getattr(request, name) for name in given}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("fuser", "nncc", "unknown fuser 'nncc'"),
        ("frontend", "tss", "unknown frontend 'tss'"),
        ("knobs", {"single_nod": "on"}, "single_nod"),
        ("runs", "5", "runs='5': a whole number is needed"),
        ("seed", 1.5, "seed=1.5: a whole number is needed"),
        ("timeout", "soon", "timeout='soon': a number of seconds is needed"),
        ("device", 0, "device=0: a text is needed"),
        ("recipes", ("delayed",), "unknown option 'recipes'"),
        ("step_func", "f", "unknown option 'step_func'"),
    ],
)
def test_a_wrong_value_from_python_is_refused(
    name: str, value: object, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        checked_options({name: value}, Offer.PYTHON)


def test_a_number_of_numpy_is_a_number() -> None:
    numpy = pytest.importorskip("numpy")
    found = checked_options(
        {"seed": numpy.int64(7), "timeout": numpy.float32(2.5)}, Offer.PYTHON
    )
    assert found == {"seed": 7, "timeout": 2.5} and type(found["seed"]) is int
