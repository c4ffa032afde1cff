"""The environment variables of a run: those that make each fuser log its decisions,
merged with the user's values."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import (
    catalogue,
    checks,
    gpu_fuser_in_release,
    has_gpu_fuser,
)
from fusiondoc.fuser_knobs.checks import (
    DISABLE,
    DUMP,
    ENABLE,
    INSTEAD,
    JIT_LOG,
    KERNEL_DUMPS,
    LOG_LEVELS,
    WITH_OPTIONS,
    check_log_level,
    merge_log_levels,
)
from fusiondoc.fusers import COMPILER, DYNAMO, FUSERS, facts_of
from fusiondoc.model import dataclass
from fusiondoc.whole_files import read_within

_VERBOSITY = "PYTORCH_JIT_TYPE_VERBOSITY"


@dataclass(frozen=True)
class RunEnvironment:
    """``set``: the variables that fusiondoc sets. ``user``: the user's own
    variables that affect a run. ``merged``: variables of ``set`` that the user had
    set too; the user's values are part of the new ones. ``notes``: sentences on the
    additions to them. ``dropped``: variables of the user that are removed for the
    run."""

    set: Mapping[str, str]
    user: Mapping[str, str]
    merged: tuple[str, ...]
    notes: tuple[str, ...]
    dropped: tuple[str, ...] = ()

    def child(self, user: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the run."""
        kept = {}
        for name, value in user.items():
            if name not in self.dropped:
                kept[name] = value
        return {**kept, **self.set}


_SLOWS = (
    JIT_LOG,
    DUMP,
    *(
        name
        for fuser in FUSERS.values()
        for name in fuser.catalogue.printing_variables
    ),
    "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_FUSION_DEBUG",
)
"""Variables that make a fuser print, or wait for the device after each kernel."""


def quiet_environment(user: Mapping[str, str]) -> RunEnvironment:
    """Return the environment of a timed run: fusiondoc sets nothing, and the user's
    variables that make torch print or wait are dropped."""
    _check_torchscript_is_on(user)
    of_interest = {}
    for name, value in sorted(user.items()):
        if catalogue.is_kept(name):
            of_interest[name] = value
    dropped = tuple(name for name in _SLOWS if user.get(name))
    return RunEnvironment({}, of_interest, (), (), dropped)


def run_environment(
    torch: str,
    cuda: str | None,
    fuser: str,
    dumps: Sequence[str],
    user: Mapping[str, str],
) -> RunEnvironment:
    """Return the variables for a run.

    Args:
        torch: version of the torch that will run; ``cuda`` its CUDA version or None.
        fuser: as requested; "auto" means one of two, which only the run itself shows, so it gets the
            variables of both where this torch has both.
        dumps: names of dumps to add, as ``fusiondoc knobs`` lists them.
        user: the user's environment.

    Raises:
        UsageError: a dump option or log level that this torch does not know. For an unknown option the fuser
            would take the fallback path everywhere, silently.
    """
    with_options = has_gpu_fuser(torch, cuda) and fuser in (
        "auto",
        WITH_OPTIONS.name,
    )
    listed = facts_of(fuser).switches.log_list
    if listed is not None:
        checks.check_dumps(dumps, fuser, torch, gpu_fuser_in_release(torch))
        variable, words = listed
        return _listed_environment(
            fuser, variable, checks.listed(dumps, variable, words), user
        )
    _check_torchscript_is_on(user)
    checks.check_dumps(dumps, fuser, torch, gpu_fuser_in_release(torch))
    wanted = _wanted_variables(torch, fuser, with_options, dumps, user)
    merged: list[str] = []
    notes: list[str] = []
    if user.get(JIT_LOG):
        check_log_level(user[JIT_LOG], torch)
        wanted[JIT_LOG], remarks = merge_log_levels(user[JIT_LOG], wanted[JIT_LOG])
        merged.append(JIT_LOG)
        notes.extend(f"{JIT_LOG}: {sentence}" for sentence in remarks)
    if with_options:
        for variable in (DUMP, ENABLE, DISABLE):
            checks.check_option_list(variable, user.get(variable, ""), torch)
    if with_options and user.get(DUMP):
        wanted[DUMP], added = checks.merge_option_lists(user[DUMP], wanted[DUMP])
        merged.append(DUMP)
        notes.extend(f"{DUMP}: added '{name}'." for name in added)
    if user.get(_VERBOSITY, "3") in ("0", "1", "2"):
        # With a level below 3, strides, devices or all types are missing from the
        # printed graphs.
        wanted[_VERBOSITY] = "3"
        notes.append(
            f"{_VERBOSITY}: raised from {user[_VERBOSITY]} to 3, else the log lacks types."
        )
    of_interest = {
        name: value
        for name, value in sorted(user.items())
        if catalogue.is_kept(name)
    }
    return RunEnvironment(wanted, of_interest, tuple(merged), tuple(notes))


def _check_torchscript_is_on(user: Mapping[str, str]) -> None:
    if user.get("PYTORCH_JIT") == "0":
        raise UsageError(
            "PYTORCH_JIT=0 is set: it switches TorchScript off",
            "Unset it: unset PYTORCH_JIT",
        )


def _wanted_variables(
    torch: str,
    fuser: str,
    with_options: bool,
    dumps: Sequence[str],
    user: Mapping[str, str],
) -> dict[str, str]:
    """The variables that make the fuser print, before the user's variables are
    merged into them."""
    wanted = {JIT_LOG: _log_level(fuser, with_options)}
    options = checks.options_of_dumps(dumps)
    if with_options or options:
        known = catalogue.dump_options(torch)
        usual = checks.without_hidden(
            [name for name in KERNEL_DUMPS if name in known], options
        )
        wanted[DUMP] = ",".join(dict.fromkeys([*usual, *options]))
    # Without it a log of partitions shows neither their fate nor how long they
    # take.
    if facts_of(fuser).limits.partitions:
        usual_of_fuser = checks.USUAL[fuser]
    else:
        usual_of_fuser = ()
    _add_needs(wanted, (*dumps, *usual_of_fuser), user)
    return wanted


def _add_needs(
    wanted: dict[str, str], dumps: Sequence[str], user: Mapping[str, str]
) -> None:
    """Add the variables for dumps that are no options of a variable; a level set by
    the user is kept."""
    for name in dumps:
        dump = catalogue.fuser_dump(name)
        for variable, value in dump.needs if dump is not None else ():
            if variable == JIT_LOG:
                wanted[JIT_LOG] = merge_log_levels(wanted[JIT_LOG], value)[0]
            elif user.get(variable, "0") in ("", "0", "none", "error"):
                wanted[variable] = value


def _log_level(fuser: str, with_options: bool) -> str:
    if fuser != "auto":
        return LOG_LEVELS[fuser]
    if not with_options:
        return LOG_LEVELS[INSTEAD]
    return merge_log_levels(LOG_LEVELS[WITH_OPTIONS.name], LOG_LEVELS[INSTEAD])[0]


# -- torch.compile -------------------------------------------------------------------------------------------

_TRACE_FOLDER = "trace"
"""In a capture: the folder for torch.compile's trace files (TORCH_TRACE)."""


def _listed_environment(
    fuser: str, variable: str, words: Sequence[str], user: Mapping[str, str]
) -> RunEnvironment:
    """Return the environment for a fuser that has its own variable for the list of
    its logs; the user's entries there stay."""
    wanted = {**facts_of(fuser).switches.own_variables, variable: ",".join(words)}
    merged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if user.get(variable):
        notes = (f"{variable}: added '{wanted[variable]}'.",)
        wanted[variable] = f"{user[variable]},{wanted[variable]}"
        merged = (variable,)
    of_interest = {}
    for name, value in sorted(user.items()):
        if catalogue.is_kept(name):
            of_interest[name] = value
    return RunEnvironment(wanted, of_interest, merged, notes)


def traced_into(
    environment: RunEnvironment, fuser: str, capture: Path
) -> RunEnvironment:
    """Return the environment with the fuser's trace in the capture; unchanged for a
    run without logs."""
    variable = facts_of(fuser).switches.trace_variable
    if variable is None or not environment.set:
        return environment
    return replace(
        environment,
        set={**environment.set, variable: str(capture.absolute() / _TRACE_FOLDER)},
    )


def fuser_of(request: RunRequest) -> str:
    """The requested fuser; that of torch.compile if --frontend requests it, or if
    the choice is automatic and the program calls it."""
    if request.fuser != "auto":
        return request.fuser
    of_program = request.frontend == "auto" and calls_torch_compile(
        request.target.path
    )
    if of_program or request.frontend == DYNAMO.name:
        return COMPILER
    return request.fuser


def calls_torch_compile(path: Path | None) -> bool:
    """True if the text of a Python file calls ``torch.compile`` with its default
    backend."""
    if path is None or path.suffix != ".py":
        return False
    try:
        data = read_within(path)
        if b"torch.compile" not in data:
            return False
        nodes = list(ast.walk(ast.parse(data)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    decorators = []
    for node in nodes:
        for mark in getattr(node, "decorator_list", ()):
            decorators.append(mark)
    calls = []
    for node in nodes:
        if isinstance(node, ast.Call) and _has_default_backend(node):
            calls.append(node)
    return any(
        map(_is_torch_compile, (*decorators, *(call.func for call in calls)))
    )


def _is_torch_compile(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "compile"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )


def _has_default_backend(call: ast.Call) -> bool:
    backends = []
    for word in call.keywords:
        if word.arg == "backend":
            backends.append(word.value)
    return all(
        isinstance(value, ast.Constant) and value.value == COMPILER
        for value in backends
    )
