"""Reads a configuration: values with their positions in ``pyproject.toml`` or
``fusiondoc.yaml``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from fusiondoc.errors import UsageError
from fusiondoc.fusers import EVERYWHERE
from fusiondoc.model import dataclass, field
from fusiondoc.whole_files import read_within


@dataclass(frozen=True)
class ConfigValue:
    """A value of the configuration."""

    value: Any
    position: str
    """Position of its key: ``pyproject.toml:14:1``."""


@dataclass
class Settings:
    """The content of a configuration file: options for all commands, and tables of
    single commands."""

    file: Path
    shown: str
    """The file's name in messages."""
    where: str
    """The table's name in messages: ``[tool.fusiondoc]``; the file itself for
    YAML."""
    options: dict[str, ConfigValue] = field(default_factory=dict)
    tables: dict[str, tuple[str, dict[str, ConfigValue]]] = field(
        default_factory=dict
    )
    """Name -> (position of its key, its values)."""


def read(path: str, kind: str) -> Settings | None:
    """Read the settings; None if a ``pyproject.toml`` has no table of ours.
    UsageError if it cannot be read."""
    file = Path(path)
    shown = str(file.relative_to(Path.cwd())) if file.parent == Path.cwd() else path
    try:
        text = read_within(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {shown}: {error}", "It must be a text file in UTF-8."
        ) from None
    if kind == "toml":
        return _toml(file, shown, text)
    return _yaml(file, shown, text)


def _toml(file: Path, shown: str, text: str) -> Settings | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{shown}: {error}",
            "Correct it: fusiondoc reads [tool.fusiondoc] in it.",
        ) from None
    tool = data.get("tool")
    table = tool.get("fusiondoc") if isinstance(tool, dict) else None
    if table is None:
        return None
    settings = Settings(file, shown, "[tool.fusiondoc]")
    if not isinstance(table, dict):
        raise UsageError(
            f"{shown}: tool.fusiondoc must be a table",
            "Write [tool.fusiondoc] and keys below.",
        )
    positions = _toml_positions(text, shown)
    for key, value in table.items():
        position = positions.get(("", key)) or positions.get((key, "")) or shown
        if isinstance(value, dict):
            inner = {}
            for k, v in value.items():
                inner[k] = ConfigValue(v, positions.get((key, k)) or position)
            settings.tables[key] = (position, inner)
        else:
            settings.options[key] = ConfigValue(value, position)
    return settings


def _toml_positions(text: str, shown: str) -> dict[tuple[str, str], str]:
    """(table below ours, key) -> position. The lines are searched, as the parser of
    TOML gives no positions."""
    positions: dict[tuple[str, str], str] = {}
    table: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if head:
            names = [name.strip(" \"'") for name in head.group(1).split(".")]
            table = None
            if names[:2] == ["tool", "fusiondoc"]:
                table = ".".join(names[2:])
            if table is not None:
                positions.setdefault(
                    (table, ""), f"{shown}:{number}:{line.index('[') + 1}"
                )
            continue
        key = re.match(r"\s*([\"']?)([\w-]+)\1\s*[=.]", line)
        if key and table is not None:
            positions.setdefault(
                (table, key.group(2)), f"{shown}:{number}:{key.start(2) + 1}"
            )
    return positions


def _yaml(file: Path, shown: str, text: str) -> Settings:
    import yaml

    from fusiondoc.expectations import yaml_text

    settings = Settings(file, shown, shown)
    root = yaml_text.compose(text, shown)
    if root is None:
        return settings
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(
            f"{shown}:1:1: it must be a mapping of keys",
            f"For example: fuser: {EVERYWHERE}",
        )

    def position(node: yaml.Node) -> str:
        at = yaml_text.position(node)
        return f"{shown}:{at.line}:{at.column}"

    for key, node in yaml_text.items(root):
        name = str(key.value)
        if isinstance(node, yaml.MappingNode):
            inner = {}
            for k, v in yaml_text.items(node):
                inner[str(k.value)] = ConfigValue(
                    _plain(v, position(v)), position(k)
                )
            settings.tables[name] = (position(key), inner)
        else:
            settings.options[name] = ConfigValue(
                _plain(node, position(node)), position(key)
            )
    return settings


def _plain(node: Any, position: str, depth: int = 0) -> Any:
    import yaml

    from fusiondoc.expectations import yaml_text

    if depth > _DEEPEST:  # an anchor can hold itself
        raise UsageError(
            f"{position}: nested too deeply",
            "Values are texts, numbers, true, false and lists.",
        )
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, position, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        items = {}
        for k, v in yaml_text.items(node):
            items[str(k.value)] = _plain(v, position, depth + 1)
        return items
    kind = yaml_text.kind(node)
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    if kind == "nothing":
        return None
    return str(node.value)


_DEEPEST = 4
