"""Apply the configuration as defaults of the command line, which overrides it, and
as ``ignore``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc import captures
from fusiondoc.cli.config_file import ConfigValue, Settings, read
from fusiondoc.cli.output import notify
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.report import Report

if TYPE_CHECKING:
    from fusiondoc.diagnosis.diagnose import Ignore

META = "fusiondoc.ignore"
PYTHON = "fusiondoc.python"
"""The configuration's key for the interpreter."""

SHARING = ("diagnose", "parse", "check", "kernels", "compare", "bench")
"""Commands that take the top-level keys; a table of its own sets the options of any
command."""

RUNNING = ("diagnose", "check", "kernels", "bench", "fix")
"""Commands that run the user's model, and so the interpreter that a project's file
may name."""

WRITTEN = ("output", "save", "trace-file", "captures-in", "source-root")
"""Options that name files to write, to remove or to show: a project's file may name
files and folders of the project only."""

GIVEN = ("apply", "follow", "force", "trust-capture", "trust-log", "update")
"""Options by which the user trusts something, permits changes of files or accepts a
run that may never end: no file can set them."""

_HINT = (
    "docs/configuration.md lists the keys: those of the long options, and ignore."
)


def apply(
    ctx: click.Context, path: str, kind: str, commands: Collection[str]
) -> None:
    """Set the defaults of every command, and store the ignored findings. UsageError
    for a wrong value."""
    settings = read(path, kind)
    if settings is None:
        return
    ignore = settings.options.pop("ignore", None)
    _set_captures(settings)
    _make_knobs_an_option(settings)
    sharing = {}
    for name in SHARING:
        if name in commands:
            sharing[name] = _options(ctx, name)
    shared_keys = {key for options in sharing.values() for key in options} | {
        "ignore"
    }
    defaults: dict[str, dict[str, Any]] = {name: {} for name in sharing}
    for key, value in settings.options.items():
        if not any(_dashed(key) in options for options in sharing.values()):
            raise _unknown(
                key, value.position, settings.where, [*shared_keys, *commands]
            )
        for name, option, default in _of_sharing_commands(
            key, value, sharing, settings
        ):
            defaults[name][option] = default
    for name, (position, values) in settings.tables.items():
        _refuse_a_wrong_table(name, position, values, shared_keys, commands)
        if name not in commands:
            raise _unknown(
                name, position, settings.where, [*shared_keys, *commands]
            )
        own = _of_own_table(name, values, _options(ctx, name), settings)
        defaults.setdefault(name, {}).update(own)
    ctx.meta[PYTHON] = _position_of_python(settings)
    ctx.default_map = defaults
    ctx.meta[META] = _ignore(ignore)


def _set_captures(settings: Settings) -> None:
    """Set the folder and number of captures; these keys are no options of single
    commands."""
    for key in (captures.IN, captures.LAST):
        named = settings.options.pop(key, None) or settings.options.pop(
            key.replace("-", "_"), None
        )
        if named is not None:
            _captures(key, named, settings)


def _make_knobs_an_option(settings: Settings) -> None:
    """Convert ``knob = {single_node = "on"}`` to ``--knob single_node=on``."""
    knob = settings.tables.pop("knob", None)
    if knob is not None:
        position, values = knob
        pairs = []
        for name, value in values.items():
            pairs.append(f"{name}={_knob_text(value.value)}")
        settings.options["knob"] = ConfigValue(pairs, position)


def _of_sharing_commands(
    key: str,
    value: ConfigValue,
    sharing: Mapping[str, Mapping[str, click.Option]],
    settings: Settings,
) -> list[tuple[str, str, Any]]:
    """Command, parameter and default for a top-level key, for the commands that
    take it.

    Raises:
        UsageError: none of the commands that have the option takes the value.
    """
    taken = []
    refused = []
    for name, options in sharing.items():
        option = options.get(_dashed(key))
        if option is None:
            continue
        try:
            taken.append(
                (name, str(option.name), _checked(option, key, value, settings))
            )
        except UsageError as error:  # e.g. a format of other commands
            refused.append(error)
    if not taken:
        raise refused[0]
    return taken


def _refuse_a_wrong_table(
    name: str,
    position: str,
    values: Mapping[str, ConfigValue],
    shared_keys: Collection[str],
    commands: Collection[str],
) -> None:
    if name in commands and name not in RUNNING and "python" in values:
        raise UsageError(
            f"{values['python'].position}: python applies to commands that run your model"
            f" ({', '.join(RUNNING)}), not for {name}",
            f"Give it on the command line: fusiondoc {name} --python FILE",
        )
    if _dashed(name) in shared_keys:
        raise UsageError(
            f"{position}: {name} takes a value or a list, not a table", _HINT
        )


def _of_own_table(
    name: str,
    values: Mapping[str, ConfigValue],
    options: Mapping[str, click.Option],
    settings: Settings,
) -> dict[str, Any]:
    """Parameter and default for each key in the table of a command."""
    defaults: dict[str, Any] = {}
    for key, value in values.items():
        option = options.get(_dashed(key))
        if option is None:
            raise _unknown(
                key, value.position, f"{settings.where}, {name}", options
            )
        defaults[str(option.name)] = _checked(option, key, value, settings)
    return defaults


def _position_of_python(settings: Settings) -> str:
    """The first position that names the interpreter; the file if none does."""
    for _, table in settings.tables.values():
        if "python" in table:
            return table["python"].position
    if "python" in settings.options:
        return settings.options["python"].position
    return settings.shown


def _captures(key: str, value: ConfigValue, settings: Settings) -> None:
    """Set the folder and number of captures for every command, also for those that
    only read captures."""
    text = str(value.value)
    if isinstance(value.value, (bool, dict, list)) or value.value is None:
        raise UsageError(f"{value.position}: {key} must be text or a number", _HINT)
    if key == captures.IN:
        _inside(text, key, value, settings)
        text = _from_here(text, key, settings)
    captures.configure(key, text, value.position)


def without_suppressed(report: Report) -> Report:
    """The report without the findings that the configuration or a comment
    suppresses; notes go to stderr."""
    from fusiondoc.diagnosis.diagnose import suppress

    ctx = click.get_current_context(silent=True)
    report, notes = suppress(
        report, ctx.meta.get(META, ()) if ctx is not None else ()
    )
    for note in notes:
        notify(f"note: {note}")
    return report


def _options(ctx: click.Context, command: str) -> dict[str, click.Option]:
    """The long options of a command by name, without --help."""
    assert isinstance(ctx.command, click.Group)
    found = ctx.command.get_command(ctx, command)
    assert found is not None
    options = {}
    for param in found.params:
        if isinstance(param, click.Option):
            for name in param.opts:
                if name.startswith("--"):
                    options[name[2:]] = param
    return options


def _checked(
    option: click.Option, key: str, value: ConfigValue, settings: Settings
) -> Any:
    """Convert a value of the configuration as the option requires."""
    if _dashed(key) in GIVEN:
        raise UsageError(
            f"{value.position}: {key} is taken from the command line only, as files may be written by others",
            f"Leave it out, and give --{_dashed(key)} when you mean it.",
        )
    if option.is_flag:
        if not isinstance(value.value, bool):
            raise UsageError(
                f"{value.position}: {key} must be true or false, not '{value.value}'",
                _HINT,
            )
        return value.value
    if isinstance(value.value, list) and not option.multiple:
        raise UsageError(
            f"{value.position}: {key} takes one value, not a list", _HINT
        )
    values = value.value if isinstance(value.value, list) else [value.value]
    texts = [_text(option, key, given, value, settings) for given in values]
    if option.multiple:
        return texts
    return texts[0]


def _text(
    option: click.Option,
    key: str,
    given: Any,
    value: ConfigValue,
    settings: Settings,
) -> str:
    """A value of an option as text, as it would be given on the command line."""
    if isinstance(given, (bool, dict, list)) or given is None:
        what = str(given).lower() if isinstance(given, bool) else "that"
        raise UsageError(
            f"{value.position}: {key} must be text or a number, not {what}", _HINT
        )
    text = str(given)
    if _dashed(key) in WRITTEN:
        _inside(text, key, value, settings)
    if isinstance(option.type, click.Path):
        text = _from_here(text, key, settings)
    try:
        option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise UsageError(
            f"{value.position}: {key}: {error.message}", _HINT
        ) from None
    except UsageError as error:
        raise UsageError(f"{value.position}: {error.message}", error.hint) from None
    return text


def _from_here(text: str, key: str, settings: Settings) -> str:
    """Convert a path in the configuration file to one relative to the current
    folder."""
    if settings.file.parent == Path.cwd() or (
        key == "python" and (os.sep not in text or text[0] == "~")
    ):
        return text  # the latter are a command on the PATH, and a file below the user's home
    return os.path.relpath(settings.file.parent / text)


def _inside(text: str, key: str, value: ConfigValue, settings: Settings) -> None:
    folder = Path(os.path.realpath(settings.file.parent))
    if folder not in Path(os.path.realpath(folder / text)).parents:
        raise UsageError(
            f"{value.position}: {key} = {text!r} is outside the folder of {settings.shown}",
            f"Name a file below that folder, or give --{key} on the command line.",
        )


def _ignore(value: ConfigValue | None) -> tuple[Ignore, ...]:
    if value is None:
        return ()
    from fusiondoc.diagnosis.diagnose import parse_ignore

    entries = value.value if isinstance(value.value, list) else [value.value]
    rules = []
    for entry in entries:
        try:
            rules.append(parse_ignore(str(entry)))
        except UsageError as error:
            raise UsageError(
                f"{value.position}: ignore: {error.message}. {error.hint}", _HINT
            ) from None
    return tuple(rules)


def _unknown(
    key: str, position: str, where: str, known: Iterable[str] | Mapping[str, Any]
) -> UsageError:
    return UsageError(
        f"{position}: unknown key '{key}' in {where}. {did_you_mean(_dashed(key), known)}",
        _HINT,
    )


def _knob_text(value: Any) -> str:
    if isinstance(value, bool):
        return {True: "on", False: "off"}.get(value, str(value))
    return str(value)


def _dashed(key: str) -> str:
    return key.replace("_", "-")
