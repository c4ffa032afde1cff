"""The configuration made into defaults of the command line, which wins over it, and into ``ignore``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc import captures
from fusiondoc.cli.output import tell
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Report
from fusiondoc.whole_files import read_within

if TYPE_CHECKING:
    from fusiondoc.diagnosis.diagnose import Ignore

META = "fusiondoc.ignore"
PYTHON = "fusiondoc.python"
"""Where the configuration names the interpreter."""

SHARING = ("diagnose", "parse", "check", "kernels", "compare", "bench")
"""Commands that take the keys at the top; a table of its own sets the options of any command."""

RUNNING = ("diagnose", "check", "kernels", "bench", "fix")
"""Commands that run the user's model, and so the interpreter that a project's file may name."""

PLACES = ("output", "save", "trace-file", "captures-in", "source-root")
"""Options that name what is written or removed, or whose files are shown: a project's file may name files and
folders of the project only."""

GIVEN = ("apply", "follow", "force", "trust-capture", "trust-log", "update")
"""Options by which the user trusts something, lets files be changed or waits for what may never end: no file
can give them."""

_HINT = "docs/configuration.md lists the keys: those of the long options, and ignore."


def apply(ctx: click.Context, path: str, kind: str, commands: Iterable[str]) -> None:
    """Set the defaults of every command, and remember what is ignored. UsageError for a wrong value."""
    settings = read(path, kind)
    if settings is None:
        return
    known = {name: _options(ctx, name) for name in SHARING if name in commands}
    ignore = settings.options.pop("ignore", None)
    for key in (captures.IN, captures.LAST):
        named = settings.options.pop(key, None) or settings.options.pop(key.replace("-", "_"), None)
        if named is not None:
            _captures(key, named, settings)
    knob = settings.tables.pop("knob", None)  # knob = {single_node = "on"}
    if knob is not None:
        pairs = [f"{name}={_knob_text(value.value)}" for name, value in knob[1].items()]
        settings.options["knob"] = Value(pairs, knob[0])
    defaults: dict[str, dict[str, Any]] = {name: {} for name in known}
    every = {key for options in known.values() for key in options} | {"ignore"}
    for key, value in settings.options.items():
        takers = [name for name, options in known.items() if _dashed(key) in options]
        if not takers:
            raise _unknown(key, value.place, settings.where, [*every, *commands])
        refused = []
        for name in takers:
            option = known[name][_dashed(key)]
            assert option.name is not None
            try:
                defaults[name][option.name] = _checked(option, key, value, settings)
            except UsageError as error:  # a format, say, that only others have
                refused.append(error)
        if len(refused) == len(takers):
            raise refused[0]
    for name, (place, values) in settings.tables.items():
        if name in commands and name not in RUNNING and "python" in values:
            raise UsageError(
                f"{values['python'].place}: python applies to commands that run your model"
                f" ({', '.join(RUNNING)}), not for {name}",
                f"Give it on the command line: fusiondoc {name} --python FILE",
            )
        if _dashed(name) in every:
            raise UsageError(f"{place}: {name} takes a value or a list, not a table", _HINT)
        if name not in commands:
            raise _unknown(name, place, settings.where, [*every, *commands])
        options = _options(ctx, name)
        for key, value in values.items():
            if _dashed(key) not in options:
                raise _unknown(key, value.place, f"{settings.where}, {name}", options)
            option = options[_dashed(key)]
            assert option.name is not None
            defaults.setdefault(name, {})[option.name] = _checked(option, key, value, settings)
    pythons = [table["python"].place for _, table in settings.tables.values() if "python" in table]
    if "python" in settings.options:
        pythons.append(settings.options["python"].place)
    ctx.meta[PYTHON] = pythons[0] if pythons else settings.shown
    ctx.default_map = defaults
    ctx.meta[META] = _ignore(ignore)


def _captures(key: str, value: Value, settings: Settings) -> None:
    """Where captures are kept, and how many: for every command, those that only read them too."""
    text = str(value.value)
    if isinstance(value.value, (bool, dict, list)) or value.value is None:
        raise UsageError(f"{value.place}: {key} must be text or a number", _HINT)
    if key == captures.IN:
        _inside(text, key, value, settings)
        text = _from_here(text, key, settings)
    captures.configure(key, text, value.place)


def heard(report: Report) -> Report:
    """The report without what the configuration or a comment suppresses; notes go to stderr."""
    from fusiondoc.diagnosis.diagnose import suppress

    ctx = click.get_current_context(silent=True)
    report, notes = suppress(report, ctx.meta.get(META, ()) if ctx is not None else ())
    for note in notes:
        tell(f"note: {note}")
    return report


def _options(ctx: click.Context, command: str) -> dict[str, click.Option]:
    """The long options of a command by name, without --help."""
    assert isinstance(ctx.command, click.Group)
    found = ctx.command.get_command(ctx, command)
    assert found is not None
    return {
        name[2:]: param
        for param in found.params
        if isinstance(param, click.Option)
        for name in param.opts
        if name.startswith("--")
    }


def _checked(option: click.Option, key: str, value: Value, settings: Settings) -> Any:
    """The value as the option takes it from the configuration."""
    if _dashed(key) in GIVEN:
        raise UsageError(
            f"{value.place}: {key} is taken from the command line only, as files may be written by others",
            f"Leave it out, and give --{_dashed(key)} when you mean it.",
        )
    if option.is_flag:
        if not isinstance(value.value, bool):
            raise UsageError(f"{value.place}: {key} must be true or false, not '{value.value}'", _HINT)
        return value.value
    if isinstance(value.value, list) and not option.multiple:
        raise UsageError(f"{value.place}: {key} takes one value, not a list", _HINT)
    values = value.value if isinstance(value.value, list) else [value.value]
    texts = []
    for one in values:
        if isinstance(one, (bool, dict, list)) or one is None:
            what = str(one).lower() if isinstance(one, bool) else "that"
            raise UsageError(f"{value.place}: {key} must be text or a number, not {what}", _HINT)
        text = str(one)
        if _dashed(key) in PLACES:
            _inside(text, key, value, settings)
        if isinstance(option.type, click.Path):
            text = _from_here(text, key, settings)
        try:
            option.type.convert(text, option, None)
        except click.BadParameter as error:
            raise UsageError(f"{value.place}: {key}: {error.message}", _HINT) from None
        except UsageError as error:
            raise UsageError(f"{value.place}: {error.message}", error.hint) from None
        texts.append(text)
    return texts if option.multiple else texts[0]


def _from_here(text: str, key: str, settings: Settings) -> str:
    """A path of the file, as it would be given on the command line in this folder."""
    if settings.file.parent == Path.cwd() or (key == "python" and (os.sep not in text or text[0] == "~")):
        return text  # the latter are a command on the PATH, and a file below the user's home
    return os.path.relpath(settings.file.parent / text)


def _inside(text: str, key: str, value: Value, settings: Settings) -> None:
    folder = Path(os.path.realpath(settings.file.parent))
    if folder not in Path(os.path.realpath(folder / text)).parents:
        raise UsageError(
            f"{value.place}: {key} = {text!r} is outside the folder of {settings.shown}",
            f"Name a file below that folder, or give --{key} on the command line.",
        )


def _ignore(value: Value | None) -> tuple[Ignore, ...]:
    if value is None:
        return ()
    from fusiondoc.diagnosis.diagnose import parse_ignore

    entries = value.value if isinstance(value.value, list) else [value.value]
    rules = []
    for entry in entries:
        try:
            rules.append(parse_ignore(str(entry)))
        except UsageError as error:
            raise UsageError(f"{value.place}: ignore: {error.message}. {error.hint}", _HINT) from None
    return tuple(rules)


def _unknown(key: str, place: str, where: str, known: Iterable[str] | Mapping[str, Any]) -> UsageError:
    return UsageError(f"{place}: unknown key '{key}' in {where}. {did_you_mean(_dashed(key), known)}", _HINT)


def _knob_text(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _dashed(key: str) -> str:
    return key.replace("_", "-")


@dataclass(frozen=True)
class Value:
    """A value of the configuration, and where its key stands: ``pyproject.toml:14:1``."""

    value: Any
    place: str


@dataclass
class Settings:
    """What a configuration says: options for all commands, and tables of single ones."""

    file: Path
    shown: str
    """The file, as messages name it."""
    where: str
    """The table, as messages name it: ``[tool.fusiondoc]``; the file itself for YAML."""
    options: dict[str, Value] = field(default_factory=dict)
    tables: dict[str, tuple[str, dict[str, Value]]] = field(default_factory=dict)
    """Name -> (place of its key, its values)."""


def read(path: str, kind: str) -> Settings | None:
    """The settings; None where a ``pyproject.toml`` has no table of ours. UsageError if it cannot be read."""
    file = Path(path)
    shown = str(file.relative_to(Path.cwd())) if file.parent == Path.cwd() else path
    try:
        text = read_within(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {shown}: {error}", "It must be a text file in UTF-8.") from None
    return _toml(file, shown, text) if kind == "toml" else _yaml(file, shown, text)


def _toml(file: Path, shown: str, text: str) -> Settings | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{shown}: {error}", "Correct it: fusiondoc reads [tool.fusiondoc] in it.") from None
    tool = data.get("tool")
    table = tool.get("fusiondoc") if isinstance(tool, dict) else None
    if table is None:
        return None
    settings = Settings(file, shown, "[tool.fusiondoc]")
    if not isinstance(table, dict):
        raise UsageError(f"{shown}: tool.fusiondoc must be a table", "Write [tool.fusiondoc] and keys below.")
    places = _toml_places(text, shown)
    for key, value in table.items():
        place = places.get(("", key)) or places.get((key, "")) or shown
        if isinstance(value, dict):
            inner = {k: Value(v, places.get((key, k)) or place) for k, v in value.items()}
            settings.tables[key] = (place, inner)
        else:
            settings.options[key] = Value(value, place)
    return settings


def _toml_places(text: str, shown: str) -> dict[tuple[str, str], str]:
    """(table below ours, key) -> place, found by reading the lines: the parser of TOML gives no positions."""
    places: dict[tuple[str, str], str] = {}
    table: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if head:
            names = [name.strip(" \"'") for name in head.group(1).split(".")]
            table = ".".join(names[2:]) if names[:2] == ["tool", "fusiondoc"] else None
            if table is not None:
                places.setdefault((table, ""), f"{shown}:{number}:{line.index('[') + 1}")
            continue
        key = re.match(r"\s*([\"']?)([\w-]+)\1\s*[=.]", line)
        if key and table is not None:
            places.setdefault((table, key.group(2)), f"{shown}:{number}:{key.start(2) + 1}")
    return places


def _yaml(file: Path, shown: str, text: str) -> Settings:
    import yaml

    from fusiondoc.expectations import yaml_text

    settings = Settings(file, shown, shown)
    root = yaml_text.compose(text, shown)
    if root is None:
        return settings
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{shown}:1:1: it must be a mapping of keys", "Such as: fuser: nnc")

    def place(node: yaml.Node) -> str:
        at = yaml_text.position(node)
        return f"{shown}:{at.line}:{at.column}"

    for key, node in yaml_text.items(root):
        name = str(key.value)
        if isinstance(node, yaml.MappingNode):
            inner = {str(k.value): Value(_plain(v, place(v)), place(k)) for k, v in yaml_text.items(node)}
            settings.tables[name] = (place(key), inner)
        else:
            settings.options[name] = Value(_plain(node, place(node)), place(key))
    return settings


def _plain(node: Any, place: str, depth: int = 0) -> Any:
    import yaml

    from fusiondoc.expectations import yaml_text

    if depth > _DEEPEST:  # an anchor can hold itself
        raise UsageError(f"{place}: nested too deeply", "Values are texts, numbers, true, false and lists.")
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, place, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(k.value): _plain(v, place, depth + 1) for k, v in yaml_text.items(node)}
    kind = yaml_text.kind(node)
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    return None if kind == "nothing" else str(node.value)


_DEEPEST = 4
