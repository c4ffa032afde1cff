"""The options of commands that run a model, and the request they make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from fusiondoc.cli.output import (
    complete_dump_options,
    complete_knob_settings,
    notify,
)
from fusiondoc.errors import UsageError
from fusiondoc.model.run_options import BY_NAME, RUN_OPTIONS, Kind, RunOption
from fusiondoc.numbers import figure, whole_number

if TYPE_CHECKING:
    from fusiondoc.captures.request import RunRequest
    from fusiondoc.captures.store import CaptureStore


F = TypeVar("F", bound=Callable[..., Any])


def _seed(_: click.Context, __: click.Parameter, value: int | None) -> int | None:
    """Refuse a seed beyond torch.manual_seed's range: a signed or unsigned number
    of 64 bits."""
    if value is not None and not -(2**63) <= value < 2**64:
        raise click.BadParameter(f"{value} has more than 64 bits.")
    return value


def _kept(_: click.Context, param: click.Parameter, value: str | None) -> None:
    """Set the folder and number of captures for everything that reads or makes them
    in this call."""
    if value is not None:
        from fusiondoc import captures

        captures.set_by_option(param.opts[0].lstrip("-"), str(value))


class Amount(click.types.FloatParamType):
    """A number above 0, with a fraction or without: the type of every option that
    takes a number, as ``float`` accepts nan and infinities too.

    Args:
        needed: the allowed values, for error messages.
        most: the largest allowed value.
        hint: the next step in error messages.
    """

    def __init__(self, needed: str, most: float, hint: str) -> None:
        self._needed = needed
        self._most = most
        self._hint = hint

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text; UsageError if it is no such number."""
        number = figure(str(value).strip())
        if number is None or not 0 < number <= self._most:
            option = f"{param.opts[0]} " if param is not None else ""
            raise UsageError(f"{option}{value}: {self._needed}", self._hint)
        return number


_MOST_SECONDS = 1e9
"""Thirty years; waiting for more than 9.2e9 s overflows
(``threading.TIMEOUT_MAX``)."""

SECONDS = Amount(
    "it must be more than 0 seconds, and less than 30 years",
    _MOST_SECONDS,
    "For example: 60.",
)

_CAPTURES_IN = click.option(
    "--captures-in",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    callback=_kept,
    expose_value=False,
    help="The folder of captures: .fusiondoc/ here, unless this or FUSIONDOC_CAPTURES names another.",
)


def captures_option(command: F) -> F:
    """``--captures-in FOLDER``, which applies to the whole call."""
    return _CAPTURES_IN(command)


def run_option(
    name: str, help: str | None = None, **settings: Any
) -> Callable[[F], F]:
    """Return the decorator for an option of a run, from the table of
    ``model/run_options.py``.

    Args: help: overrides the text of the table, in a command for which the option
        means more or less. settings: click's settings, which override those from
        the table.
    """
    option = BY_NAME[name]
    flags = str(option.flag)
    if option.opposite is not None:
        flags += f"/{BY_NAME[option.opposite].flag}"
    common: dict[str, Any] = {
        "help": help or option.help,
        "metavar": option.metavar,
    }
    if option.default and option.kind is not Kind.SETTINGS:
        common.update(default=option.default, show_default=True)
    return click.option(
        flags, name, **{**common, **_click_type(option), **settings}
    )


def _click_type(option: RunOption) -> dict[str, Any]:
    """The click settings for the values of an option, by its kind."""
    if option.opposite is not None:
        return {"default": None}  # neither of the two
    choice = click.Choice(option.choices)
    by_kind: dict[Kind, dict[str, Any]] = {
        Kind.FLAG: {"is_flag": True},
        Kind.NUMBER: {"type": click.IntRange(min=1)},
        Kind.SEED: {"type": int, "callback": _seed},
        Kind.SECONDS: {"type": SECONDS},
        Kind.CHOICE: {"type": choice},
        Kind.CHOICES: {"type": choice, "multiple": True},
        Kind.TEXTS: {"multiple": True},
        Kind.NAMES: {"multiple": True, "shell_complete": complete_dump_options},
        Kind.SETTINGS: {"multiple": True, "shell_complete": complete_knob_settings},
    }
    return by_kind.get(option.kind, {})


_AS_MODULE = click.option(
    "-m",
    "--module",
    "as_module",
    is_flag=True,
    help="TARGET is a module or package: run it as python -m does; its own arguments after --.",
)
_PYTHON = click.option(
    "--python",
    type=click.Path(),
    metavar="PATH",
    help="The interpreter whose torch runs the model; by default this one.",
)
_OPTIONS = (
    run_option("fuser"),
    run_option("frontend"),
    run_option("recipes"),
    run_option("backward"),
    run_option("runs"),
    run_option("inputs"),
    run_option("trace"),
    run_option("script"),
    _AS_MODULE,
    run_option("mode"),
    run_option("dynamic"),
    run_option("no_run"),
    run_option("step_function"),
    run_option("freeze"),
    run_option("device"),
    run_option("seed"),
    run_option("timeout"),
    run_option("log_limit"),
    run_option("knobs"),
    run_option("dumps"),
    _PYTHON,
    click.option(
        "--name",
        metavar="NAME",
        help="Name the capture, for fusiondoc compare NAME latest; it is kept until it is removed by name.",
    ),
    click.option(
        "--keep-last",
        metavar="N",
        callback=_kept,
        expose_value=False,
        help="Keep the newest N captures (20; or FUSIONDOC_KEEP_LAST), and those with a name.",
    ),
)


_MOST_GB_PER_S = 100_000
"""GB/s; ten times the fastest GPU: a larger value is bytes or MB by mistake."""

_GB_PER_S = Amount(
    "a memory bandwidth in GB/s (10^9 bytes a second) is needed",
    _MOST_GB_PER_S,
    "For example: --peak 1555 for an A100 40GB; fusiondoc env --measure measures it.",
)


def peak_option(command: F) -> F:
    """``--peak GB_PER_S``, as the argument ``peak``."""
    return click.option(
        "--peak",
        type=_GB_PER_S,
        metavar="GB_PER_S",
        help="Memory bandwidth of the GPU to compare kernels with.",
    )(command)


def source_root_option(command: F) -> F:
    """``--source-root FOLDER``, as the argument ``source_root``."""
    return click.option(
        "--source-root",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Show lines of the Python files below FOLDER too; by default only those of this project.",
    )(command)


def _model_name(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> str | None:
    if value is None:
        return None
    from fusiondoc.captures.model_identity import check_model_name

    return check_model_name(value)


def model_name_option(command: F) -> F:
    """``--model-name NAME``, as the argument ``model_name``."""
    return click.option(
        "--model-name",
        metavar="NAME",
        callback=_model_name,
        help="Which model this is: survey counts runs with the same NAME together; by default its "
        "project and path.",
    )(command)


def run_options(command: F) -> F:
    """Add every option of a run."""
    for option in reversed((*_OPTIONS, _CAPTURES_IN)):
        command = option(command)
    return command


def export_options(command: F) -> F:
    """Add the options of a run that determine its launcher's variables and
    lines."""
    of_run = (run_option(name) for name in ("dumps", "knobs", "script", "fuser"))
    for option in (_PYTHON, _AS_MODULE, *of_run):
        command = option(command)
    return command


_LAUNCHER = (
    (
        "nproc-per-node",
        "N",
        "Run N processes (ranks) through torch's own launcher, a log a rank.",
    ),
    ("nnodes", "N", "Machines; run fusiondoc on each."),
    ("node-rank", "N", "Number of this machine, from 0."),
    ("rdzv-backend", "NAME", "How the machines find each other: c10d, static ..."),
    ("rdzv-endpoint", "HOST:PORT", "Where they find each other."),
    ("rdzv-id", "ID", "Name of the job."),
    ("rdzv-conf", "K=V", "More settings of the rendezvous."),
    ("master-addr", "HOST", "Machine of rank 0, if nothing else names it."),
    ("master-port", "PORT", "Its port."),
    ("max-restarts", "N", "How often all processes start again if one fails."),
)
"""Options that are passed on to torch.distributed.run (torch/distributed/run.py,
1.12 to 2.13; with underscores, as in 1.12)."""


def launcher_options(command: F) -> F:
    """The options of torch's launcher, as the argument ``launcher``."""

    def passed(
        ctx: click.Context, param: click.Parameter, value: str | None
    ) -> str | None:
        if value is not None and not ctx.resilient_parsing:
            ctx.meta.setdefault(_LAUNCHED, {})[str(param.name)] = value
        return value

    for name, metavar, text in reversed(_LAUNCHER):
        command = click.option(
            f"--{name}",
            metavar=metavar,
            help=text,
            expose_value=False,
            callback=passed,
        )(command)
    return command


_LAUNCHED = "fusiondoc.launched"
_MANY = ("gpu", "cpu", "auto")


def launcher_arguments() -> tuple[str, ...]:
    """Return the arguments for torch.distributed.run; () for a run of one process.
    UsageError if the options do not fit together."""
    given: dict[str, str] = dict(
        click.get_current_context().meta.get(_LAUNCHED, {})
    )
    number = given.get("nproc_per_node")
    if number is None:
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise UsageError(
                f"{option} is for several processes, whose number is missing",
                "For example: --nproc-per-node 2.",
            )
        return ()
    if (whole_number(number) or 0) < 1 and number not in _MANY:
        raise UsageError(
            f"--nproc-per-node {number}: a number of processes is needed",
            "For example: 2, or gpu for one on each GPU.",
        )
    alone = not {
        "nnodes",
        "rdzv_endpoint",
        "rdzv_backend",
        "master_addr",
        "master_port",
    } & set(given)
    from fusiondoc.captures.request import STANDALONE

    return (
        *([STANDALONE] if alone else []),
        *(f"--{name}={value}" for name, value in given.items()),
    )


def store_for(options: dict[str, Any]) -> CaptureStore:
    """The folder for the capture of a run, with the name given by ``--name``; notes
    go to stderr."""
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.workflows import is_target

    name = options.get("name")
    if name is not None and is_target(name):
        raise UsageError(
            f"--name {name}: that is the form of a target",
            "Choose a name without .py or .pt.",
        )
    return CaptureStore(name=name, notify=notify)


def names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of each ``--dump NAME[,NAME]``, without duplicates."""
    names = []
    for text in texts:
        for name in text.split(","):
            if name:
                names.append(name)
    return tuple(dict.fromkeys(names))


def chosen_knobs(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` of each --knob; UsageError for one that is unknown or has no
    value."""
    from fusiondoc.fuser_knobs.checks import check_knob

    knobs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--knob {text}: a knob needs a value",
                f"For example: --knob {name}=on.",
            )
        check_knob(name, value)
        knobs[name] = value
    return knobs


def _report_python_of_project(python: Path | None) -> None:
    """Notify the user if the interpreter is named by the project's
    configuration."""
    ctx = click.get_current_context(silent=True)
    if (
        ctx is not None
        and ctx.get_parameter_source("python") is ParameterSource.DEFAULT_MAP
    ):
        from fusiondoc.cli.config import PYTHON

        notify(
            f"note: {ctx.meta.get(PYTHON)} names the interpreter: {python}; --python PATH takes another"
        )


def make_request(
    target: str, script_args: Sequence[str], options: dict[str, Any]
) -> RunRequest:
    """The request for a run; wrong usage is refused here, before anything
    starts."""
    from fusiondoc.captures.request import RunRequest, parse_module, parse_target
    from fusiondoc.runner.interpreter import find_python

    _report_python_of_project(options["python"])
    script = options["script"] or options["as_module"]
    if script_args and not script:
        raise UsageError(
            f"unexpected argument '{script_args[0]}'",
            "Arguments after the target are for a script that runs as it is: --script FILE.py -- ARGS",
        )
    if options["script"] and options["as_module"]:
        raise UsageError(
            "--script is for a file, and -m for a module", "Leave one of them out."
        )
    if options.get("step_function") is not None and not script:
        raise UsageError(
            "--step-function is for a script that runs as it is",
            "A model's step is its forward pass, with --backward and the backward pass. For a script: "
            "--script FILE.py or -m MODULE",
        )
    return RunRequest(
        target=parse_module(target)
        if options["as_module"]
        else parse_target(target),
        python=find_python(options["python"] or sys.executable),
        command=tuple(sys.argv),
        model=options.get("model_name"),
        **_values({**options, "script": script, "script_args": script_args}),
    )


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The run options among those that click passes, without the command's own
    options."""
    values: dict[str, Any] = {}
    for option in RUN_OPTIONS:
        value = options.get(option.name)
        if option.opposite is not None:
            values[option.opposite] = value is False
            values[option.name] = value is True
        elif value is None:
            continue
        elif option.kind is Kind.SETTINGS:
            values[option.name] = chosen_knobs(value)
        elif option.kind is Kind.NAMES:
            values[option.name] = names_of(value)
        else:
            if isinstance(value, (tuple, list)):
                values[option.name] = tuple(value)
            else:
                values[option.name] = value
    return values
