"""Every option of a run, declared once: its name, the values that it takes, its
default, how a command line writes it, its help text, and who offers it.

From this table follow the options of the commands (``cli/options.py``), the checks
of the Python API and of the pytest fixture (``captures/python_options.py``) and the
command lines in advice (``command_words``). ``RunRequest`` and ``Options`` are its
typed views: ``RunRequest`` has the values of a run that is to start, ``Options``
those that a capture keeps. A test compares both with the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, Flag, auto
from typing import Any, NamedTuple

from fusiondoc.fusers import (
    COMPILE_MODES,
    COMPILER,
    FRONTENDS,
    facts_of,
    frontend_choices,
    fuser_of_dumps,
    order_of_choice,
    own_dumps,
    recipes,
    requests,
    titles,
)


class Kind(Enum):
    """The values that an option takes."""

    FLAG = "flag"
    """``--trace``: a bool."""
    NUMBER = "number"
    """``--runs 5``: an int from 1."""
    SEED = "seed"
    """``--seed 7``: an int of 64 bits, signed or unsigned."""
    SECONDS = "seconds"
    """``--timeout 60``: a float above 0."""
    TEXT = "text"
    """``--device cuda``: a str."""
    CHOICE = "choice"
    """``--frontend aot``: one of ``RunOption.choices``."""
    CHOICES = "choices"
    """``--recipe delayed --recipe block``: a tuple of these."""
    TEXTS = "texts"
    """``--input 0.5 --input true``: a tuple of str."""
    NAMES = "names"
    """``--dump ptx,cuda_kernel``: a tuple of str."""
    SETTINGS = "settings"
    """``--knob guard=off``: a mapping from str to str."""


class Offer(Flag):
    """Who lets a user choose the value."""

    NOBODY = 0
    """fusiondoc chooses it, for runs that it makes in addition to the first."""
    COMMANDS = auto()
    """Every command that runs a model."""
    DIAGNOSE = auto()
    """``fusiondoc diagnose`` alone."""
    PYTHON = auto()
    """``fusiondoc.diagnose``."""
    TESTS = auto()
    """Methods of the pytest fixture, as ``**options``."""


ANY_RUN = Offer.COMMANDS | Offer.PYTHON
EVERYWHERE = ANY_RUN | Offer.TESTS


class RunOption(NamedTuple):
    """One row of the table."""

    name: str
    """Field of ``RunRequest`` and ``Options``, key of JSON, parameter of
    ``fusiondoc.diagnose``."""
    kind: Kind
    default: Any
    offers: Offer
    flag: str | None = None
    """How a command line writes it; None: there is no option for it."""
    help: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    opposite: str | None = None
    """The option that is on if this one is switched off:
    ``--freeze/--no-freeze``."""


_COMPILER = facts_of(COMPILER).title
_FOR_FROZEN = titles(lambda fuser: fuser.limits.frozen_only)

RUN_OPTIONS = (
    RunOption(
        "fuser",
        Kind.CHOICE,
        "auto",
        ANY_RUN,
        "--fuser",
        f"auto: {_COMPILER} for a program that calls torch.compile, else {order_of_choice()}.",
        choices=requests(),
    ),
    RunOption(
        "frontend",
        Kind.CHOICE,
        "auto",
        ANY_RUN,
        "--frontend",
        "What builds the fusion groups: TorchScript, AOTAutograd (memory_efficient_fusion) before it, "
        f"te.ops of {FRONTENDS['te'].title}, or torch.compile (dynamo); auto: what the target uses.",
        choices=frontend_choices(),
    ),
    RunOption(
        "device",
        Kind.TEXT,
        None,
        ANY_RUN,
        "--device",
        "Move model and inputs there first: cpu, cuda, cuda:1.",
        "DEVICE",
    ),
    RunOption(
        "seed",
        Kind.SEED,
        None,
        EVERYWHERE,
        "--seed",
        "Seed of torch, set before the target is loaded.",
    ),
    RunOption("runs", Kind.NUMBER, 5, ANY_RUN, "--runs", "Passes for each shape."),
    RunOption(
        "backward",
        Kind.FLAG,
        False,
        ANY_RUN,
        "--backward",
        "Add a backward pass to every run.",
    ),
    RunOption(
        "trace",
        Kind.FLAG,
        False,
        EVERYWHERE,
        "--trace",
        "Trace the model instead of scripting it.",
    ),
    RunOption(
        "freeze",
        Kind.FLAG,
        False,
        EVERYWHERE,
        "--freeze",
        f"Freeze a module in eval mode first; default: only under {_FOR_FROZEN} without --backward.",
        opposite="no_freeze",
    ),
    RunOption(
        "script",
        Kind.FLAG,
        False,
        ANY_RUN,
        "--script",
        "Run FILE.py as it is; its own arguments after --.",
    ),
    RunOption(
        "mode",
        Kind.CHOICE,
        COMPILE_MODES[0],
        EVERYWHERE,
        "--mode",
        f"Mode of torch.compile, under {_COMPILER}.",
        choices=COMPILE_MODES,
    ),
    RunOption(
        "dynamic",
        Kind.FLAG,
        False,
        EVERYWHERE,
        "--dynamic",
        f"Let torch.compile compile for any sizes at once, under {_COMPILER}.",
    ),
    RunOption(
        "no_run",
        Kind.FLAG,
        False,
        EVERYWHERE,
        "--no-run",
        f"Under {_COMPILER}: generate kernels, and neither compile nor run them; for a report in seconds.",
    ),
    RunOption("no_freeze", Kind.FLAG, False, EVERYWHERE, "--no-freeze"),
    RunOption(
        "recipes",
        Kind.CHOICES,
        (),
        Offer.COMMANDS,
        "--recipe",
        "Run te.ops operators under this FP8 or FP4 recipe. Repeat for more.",
        choices=recipes(),
    ),
    RunOption(
        "step_function",
        Kind.TEXT,
        None,
        ANY_RUN,
        "--step-function",
        "What a step of a script is: calls of train_step, Class.step or package.module:NAME; by default "
        "those of its optimizer's step.",
        "NAME",
    ),
    RunOption(
        "inputs",
        Kind.TEXTS,
        (),
        ANY_RUN,
        "--input",
        "An argument instead of the file's own: 'float32[8,128,1024]:grad', 0.5, true. Repeat for more.",
        "TEXT",
    ),
    RunOption(
        "knobs",
        Kind.SETTINGS,
        {},
        EVERYWHERE,
        "--knob",
        "Set a knob of torch (fusiondoc knobs lists them). Repeat for more.",
        "NAME=VALUE",
    ),
    RunOption(
        "dumps",
        Kind.NAMES,
        (),
        EVERYWHERE,
        "--dump",
        f"Also print kernels: options of {fuser_of_dumps().switches.dump_variable}, or "
        f"{', '.join(own_dumps())} under those fusers (fusiondoc knobs lists them).",
        "NAME[,NAME]",
    ),
    RunOption(
        "timeout",
        Kind.SECONDS,
        600.0,
        EVERYWHERE,
        "--timeout",
        "Stop the model's process after this long.",
        "SECONDS",
    ),
    RunOption(
        "log_limit",
        Kind.NUMBER,
        1024,
        Offer.COMMANDS,
        "--log-limit",
        "Limit the log: keep its head, its tail and the lines about fusion between them.",
        "MIB",
    ),
    RunOption(
        "verify",
        Kind.FLAG,
        False,
        Offer.DIAGNOSE | Offer.PYTHON | Offer.TESTS,
        "--verify",
        "Compare every pass with an eager one: outputs and, with --backward, gradients.",
    ),
    RunOption("script_args", Kind.TEXTS, (), ANY_RUN),
    RunOption("launcher", Kind.TEXTS, (), Offer.DIAGNOSE),
    RunOption("eval", Kind.FLAG, False, Offer.NOBODY),
    RunOption("in_place_off", Kind.FLAG, False, Offer.NOBODY),
    RunOption("timing", Kind.FLAG, False, Offer.NOBODY),
    RunOption("timing_rounds", Kind.NUMBER, None, Offer.NOBODY),
    RunOption("profile", Kind.FLAG, False, Offer.NOBODY),
)
"""All options, in the order of command lines."""

BY_NAME: Mapping[str, RunOption] = {option.name: option for option in RUN_OPTIONS}
DEFAULTS: Mapping[str, Any] = {
    option.name: option.default for option in RUN_OPTIONS
}


def offered(to: Offer) -> tuple[str, ...]:
    """Return the names of the options that are offered to ``to``."""
    return tuple(option.name for option in RUN_OPTIONS if option.offers & to)


def command_words(
    values: Mapping[str, Any], offers: Offer, more: Sequence[str] = ()
) -> list[str]:
    """Options as a command line writes them; those that have their default are left
    out.

    Args: values: by name; a value of None is not known and left out. offers: the
        command, which gets no options of others. more: words that follow on that
        command line, whose options replace those of ``values``.
    """
    words: list[str] = []
    for option in RUN_OPTIONS:
        value = values.get(option.name)
        if option.flag is None or value is None or not option.offers & offers:
            continue
        if option.kind is Kind.SETTINGS:
            changed = {}
            for name, text in value.items():
                if not _sets(more, name):
                    changed[name] = text
            words += _words(option, option.flag, changed)
        elif not _replaced(option, more):
            words += _words(option, option.flag, value)
    return words


def _words(option: RunOption, flag: str, value: Any) -> list[str]:
    if value == option.default:
        return []
    if option.kind is Kind.FLAG:
        return [flag]
    if option.kind in (Kind.TEXTS, Kind.CHOICES):
        words: list[str | Any] = []
        for text in value:
            words.extend((flag, text))
        return words
    if option.kind is Kind.SETTINGS:
        words = []
        for name, text in value.items():
            words.extend((flag, f"{name}={text}"))
        return words
    if option.kind is Kind.NAMES:
        return [flag, ",".join(value)]
    if option.kind is Kind.SECONDS and value % 1 == 0:
        return [flag, f"{value:.0f}"]
    return [flag, str(value)]


def _replaced(option: RunOption, more: Sequence[str]) -> bool:
    """True if ``more`` has the option or its opposite."""
    opposites = []
    for other in RUN_OPTIONS:
        if other.opposite == option.name:
            opposites.append(other.flag)
    return option.flag in more or any(flag in more for flag in opposites)


def _sets(more: Sequence[str], setting: str) -> bool:
    return any(word.startswith(f"{setting}=") for word in more)
