"""Reads a file of expectations. An unknown key is an error with line, column and
the nearest known key; a well-formed file becomes an ``Expectations``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import yaml

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.expectations import (
    Expectations,
    ExpectationSection,
    FilePosition,
    Path,
    Policy,
    keys,
    yaml_text,
)
from fusiondoc.expectations.keys import Field
from fusiondoc.expectations.sections_of_file import build_policy, build_section, day
from fusiondoc.expectations.yaml_text import Problems
from fusiondoc.numbers import figure, whole_number
from fusiondoc.whole_files import read_within

HINT = "docs/commands/check.md lists the keys; docs/expectations.schema.json lets an editor complete them."


def load(file: FilePath, codes: Container[str] = ()) -> Expectations:
    """Read the expectations in a file. ``codes`` are the existing finding codes;
    empty accepts any. Raises: UsageError: it cannot be read, or is invalid.
    """
    return loads(read_text(file), str(file), codes)


def _written_by(name: str) -> str:
    return (
        f"fusiondoc check TARGET --expect {shlex.quote(name)} --update writes it."
    )


def read_text(file: FilePath) -> str:
    """The file as text, with its own line ends. UsageError if it cannot be read."""
    try:
        return read_within(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file} is not UTF-8 text (byte {error.start})", "Save it as UTF-8."
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", _written_by(str(file))
        ) from None
    except ValueError as error:
        raise UsageError(
            f"cannot read {str(file)!r}: {error}", "Name a YAML file."
        ) from None


def loads(
    text: str,
    name: str,
    codes: Container[str] = (),
    position_in_words: Callable[[FilePosition], str] | None = None,
) -> Expectations:
    """Read the expectations in a text. Args: name: the text's name in messages.
    position_in_words: makes the text for a position in messages, if not
    ``name:line:column``.
    """
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        line = text.count("\n", 0, conflict.start()) + 1
        raise UsageError(
            f"{name}:{line}: a merge left both sides here ({conflict.group()})",
            "Keep one side and take out the marks; then fusiondoc check --update brings it up to date.",
        )
    root = yaml_text.compose(text, name)
    if root is None:
        raise UsageError(f"{name} is empty", _written_by(name))
    reader = _Reader(Problems(name, position_in_words), codes)
    sections = reader.file(root)
    policy = reader.policy(root)
    reader.problems.raise_if_any(HINT)
    return Expectations(name, tuple(sections), policy)


_CONFLICT = re.compile(r"^(<{7}|>{7})(?= |\r?$)", re.M)
"""git's markers of a merge conflict."""


_MAPPINGS: Mapping[str, Mapping[str, Field]] = {
    "when": keys.WHEN,
    "findings": keys.FINDINGS,
    "run": keys.RUN,
    "all": keys.ALL,
}
"""Kinds of fields whose value is a mapping, with its keys."""

_SWITCHES = {"true": "on", "false": "off"}
"""YAML reads on and off as these."""


_USUAL = "give groups, number_of_groups, min_coverage or another key of a section"


def _has_limits(node: yaml.Node | None) -> bool:
    if not isinstance(node, yaml.MappingNode):
        return False
    return any(key.value in keys.LIMITS_FOR_ALL for key, _ in yaml_text.items(node))


class _Reader:
    def __init__(self, problems: Problems, codes: Container[str]) -> None:
        self.problems = problems
        self._codes = codes

    def file(self, root: yaml.Node) -> list[ExpectationSection]:
        several = None
        if isinstance(root, yaml.MappingNode):
            several = yaml_text.at(root, ("sections",))
        if several is None:
            return self._sections([((), root)])
        for key, _ in yaml_text.items(root):
            if key.value not in ("sections", "all"):
                if key.value in keys.SECTION:
                    self.problems.add(
                        key,
                        f"'{key.value}' is not allowed next to 'sections': move it into a section",
                    )
                else:
                    self._unknown(key, keys.FILE, "the file")
        self._twice(root)
        nodes = self._list(several, "sections")
        limited = _has_limits(yaml_text.at(root, ("all",)))
        return self._sections(
            [(("sections", i), node) for i, node in enumerate(nodes)], limited
        )

    def policy(self, root: yaml.Node) -> Policy | None:
        """The limits for all models of the file; None if there are none."""
        node = None
        if isinstance(root, yaml.MappingNode):
            node = yaml_text.at(root, ("all",))
        if node is None:
            return None
        if yaml_text.at(root, ("sections",)) is None:
            self.problems.add(node, "'all' is for a file with 'sections'")
        values = self._mapping(node, keys.ALL, "all")
        if values is None:
            return None
        return build_policy(values, node)

    def _exception(self, node: yaml.Node) -> dict[str, Any] | None:
        values = self._mapping(node, keys.EXCEPTION, "an exception")
        if values is None:
            return None
        given = set()
        for key, _ in yaml_text.items(node):
            if isinstance(key, yaml.ScalarNode):
                given.add(key.value)
        for lacking in (key for key in keys.EXCEPTION_NEEDS if key not in given):
            self.problems.add(node, f"an exception needs {lacking}")
        if given and not given - set(keys.EXCEPTION_NEEDS):
            others = [
                key for key in keys.EXCEPTION if key not in keys.EXCEPTION_NEEDS
            ]
            self.problems.add(node, f"an exception needs {_or(others)}")
        complete = all(key in values for key in keys.EXCEPTION_NEEDS)
        if complete:
            return {**values, "": node}
        return None

    def _settings(self, node: yaml.Node, name: str) -> dict[str, str] | None:
        if not isinstance(node, yaml.MappingNode):
            self.problems.add(
                node, f"{name} must be {keys.EXAMPLES['settings']}, not {_a(node)}"
            )
            return None
        self._twice(node)
        found = {}
        for key, value in yaml_text.items(node):
            written = yaml_text.plain_value(value)
            if written is None:
                self.problems.add(
                    value,
                    f"{name} must be {keys.EXAMPLES['value']}, not {_a(value)}",
                )
            else:
                found[str(key.value)] = _SWITCHES.get(written.lower(), written)
        return found

    def _plain(self, node: yaml.Node, field: Field, name: str) -> Any:
        """A boolean, a number without bounds, a day, or any value as it is
        written."""
        value: Any = None
        written = yaml_text.plain_value(node)
        if field.kind == "flag":
            value = yaml_text.flag(node)
        elif field.kind == "seed":
            value = None
            if yaml_text.kind(node) == "number" and written:
                value = whole_number(written)
        elif field.kind == "date":
            value = day(written)
        else:
            value = written
        if value is None:
            self.problems.add(
                node, f"{name} must be {keys.EXAMPLES[field.kind]}, not {_a(node)}"
            )
        return value

    def _sections(
        self, nodes: Iterable[tuple[Path, yaml.Node]], limited: bool = False
    ) -> list[ExpectationSection]:
        """Read the sections. ``limited``: there are limits for all of them, so none
        needs an expectation of its own."""
        sections = []
        for path, node in nodes:
            known = keys.SECTION if path else keys.FILE
            values = self._mapping(node, known, "a section" if path else "the file")
            if values is None:
                continue
            if not limited and not any(key in values for key in keys.EXPECTING):
                self.problems.add(node, f"nothing is expected here: {_USUAL}")
            sections.append(build_section(values, node, path))
        return sections

    def _mapping(
        self, node: yaml.Node, known: Mapping[str, Field], what: str
    ) -> dict[str, Any] | None:
        """The values of a mapping by key, each read by its field. A key with a
        problem is left out."""
        if not isinstance(node, yaml.MappingNode):
            self.problems.add(
                node, f"{what} must be a mapping of {_or(known)}, not {_a(node)}"
            )
            return None
        self._twice(node)
        values = {}
        for key, value in yaml_text.items(node):
            name = key.value
            if not isinstance(name, str) or name not in known:
                self._unknown(key, known, what)
                continue
            read = self._field(value, known[name], name)
            if read is not None:
                values[name] = read
        if not node.value:
            self.problems.add(node, f"{what} is empty: give {_or(known)}")
        return values

    def _twice(self, node: yaml.Node) -> None:
        seen = set()
        for key, _ in yaml_text.items(node):
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.problems.add(key, f"duplicate key '{key.value}'")
                seen.add(key.value)

    def _unknown(self, key: yaml.Node, known: Iterable[str], what: str) -> None:
        name = key.value if isinstance(key, yaml.ScalarNode) else _a(key)
        self.problems.add(
            key, f"unknown key '{name}' in {what}. {did_you_mean(str(name), known)}"
        )

    def _list(
        self, node: yaml.Node, name: str, may_be_empty: bool = False
    ) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.problems.add(node, f"{name} must be a list, not {_a(node)}")
            return []
        if not node.value and not may_be_empty:
            self.problems.add(node, f"{name} is an empty list")
        return list(node.value)

    def _field(self, node: yaml.Node, field: Field, name: str) -> Any:
        if field.many == "no" or (
            field.many == "either" and not isinstance(node, yaml.SequenceNode)
        ):
            value = self._one(node, field, name)
            if field.many == "no" or value is None:
                return value
            return [value]
        nodes = self._list(node, name, may_be_empty=field.many == "any")
        return [
            value
            for value in (self._one(n, field, name) for n in nodes)
            if value is not None
        ]

    def _one(self, node: yaml.Node, field: Field, name: str) -> Any:
        if field.kind == "group":
            return self._group(node)
        if field.kind == "module":
            return self._module(node)
        if field.kind in _MAPPINGS:
            return self._mapping(node, _MAPPINGS[field.kind], field.kind)
        if field.kind == "exception":
            return self._exception(node)
        if field.kind == "settings":
            return self._settings(node, name)
        if field.kind in ("flag", "seed", "date", "value"):
            return self._plain(node, field, name)
        if field.kind == "one kernel":
            return self._with_one_of(
                node, keys.ONE_KERNEL, "an item of one_kernel", ("source",)
            )
        if field.kind == "graph":
            return self._with_one_of(
                node, keys.GRAPH, "a compiled graph", keys.GRAPH_LIMITS
            )
        if field.kind == "counts" and isinstance(node, yaml.MappingNode):
            values = self._mapping(node, keys.COUNTS, name)
            if values and "exactly" in values and len(values) > 1:
                self.problems.add(
                    node, "exactly cannot be combined with at_least or at_most"
                )
            return values
        return self._scalar(node, field, name)

    def _group(self, node: yaml.Node) -> dict[str, Any] | None:
        if isinstance(node, yaml.SequenceNode):
            return {
                "ops": self._field(node, keys.GROUP["ops"], "a plain list"),
                "": node,
            }
        values = self._mapping(node, keys.GROUP, "a group")
        if values is None:
            return None
        given = set()
        for key, _ in yaml_text.items(node):
            if isinstance(key, yaml.ScalarNode):
                given.add(key.value)
        if given and not given & set(keys.NEEDS_ONE):
            self.problems.add(node, f"a group needs {_or(keys.NEEDS_ONE)}")
        for pair in (tuple(keys.ORDERS), ("at_least", "exactly")):
            if len(given & set(pair)) > 1:
                self.problems.add(
                    node, f"a group takes only one of {', '.join(pair)}"
                )
        values[""] = node
        return values

    def _module(self, node: yaml.Node) -> dict[str, Any] | None:
        values = self._mapping(node, keys.MODULE, "a module")
        if values is None:
            return None
        given = set()
        for key, _ in yaml_text.items(node):
            if isinstance(key, yaml.ScalarNode):
                given.add(key.value)
        for lacking in sorted(set(keys.MODULE) - given if given else ()):
            self.problems.add(
                node,
                f"a module needs {lacking}: {keys.EXAMPLES[keys.MODULE[lacking].kind]}",
            )
        if len(values) == len(keys.MODULE):
            return {**values, "": node}
        return None

    def _with_one_of(
        self,
        node: yaml.Node,
        known: Mapping[str, Field],
        what: str,
        needed: Sequence[str],
    ) -> dict[str, Any] | None:
        """The values of a mapping that must have at least one of the needed
        keys."""
        values = self._mapping(node, known, what)
        if values is None:
            return None
        given = set()
        for key, _ in yaml_text.items(node):
            if isinstance(key, yaml.ScalarNode):
                given.add(key.value)
        if given and not given & set(needed):
            self.problems.add(node, f"{what} needs {_or(needed)}")
            return None
        return {**values, "": node}

    def _scalar(self, node: yaml.Node, field: Field, name: str) -> Any:
        if field.choices:
            value = yaml_text.text(node)
            if value in field.choices:
                return value
            shown = getattr(node, "value", None)
            if not isinstance(shown, str):
                self.problems.add(
                    node,
                    f"{name} must be one of {', '.join(field.choices)}, not {_a(node)}",
                )
            else:
                self.problems.add(
                    node,
                    f"{name}: '{shown}' is unknown. {did_you_mean(shown, field.choices)}",
                )
            return None
        if field.kind in ("count", "positive", "counts", "rate", "share"):
            return self._number(node, field, name)
        value = yaml_text.text(node)
        if value is None:
            hint = "; put it in quotes" if isinstance(node, yaml.ScalarNode) else ""
            of = "of " if name == "a plain list" else ""
            self.problems.add(
                node,
                f"{name} must be {of}{keys.EXAMPLES[field.kind]}, not {_a(node)}{hint}",
            )
        elif not keys.fits(field.kind, value):
            self.problems.add(
                node, f"{name}: '{value}' is not {keys.EXAMPLES[field.kind]}"
            )
        elif (
            field.kind == "finding"
            and value.startswith("FD")
            and not self._known(value)
        ):
            self.problems.add(
                node,
                f"{name}: there is no finding {value} (fusiondoc explain lists them)",
            )
        else:
            return value
        return None

    def _known(self, code: str) -> bool:
        return not self._codes or code.endswith("xx") or code in self._codes

    def _number(self, node: yaml.Node, field: Field, name: str) -> Any:
        value = yaml_text.number(node)
        written = yaml_text.text(node)
        if (
            field.kind == "share"
            and written is not None
            and keys.fits("percent", written)
        ):
            return (figure(written[:-1]) or 0.0) / 100
        whole = field.kind in ("count", "positive", "counts")
        lowest = 1 if field.kind == "positive" else 0
        if value is None or value < lowest or (whole and value != int(value)):
            example = keys.EXAMPLES[
                "count" if field.kind == "counts" else field.kind
            ]
            self.problems.add(node, f"{name} must be {example}, not {_a(node)}")
            return None
        if field.kind == "share" and value > 1:
            self.problems.add(
                node,
                f"{name} is a share from 0 to 1: write {node.value}%, or {value / 100:g}",
            )
            return None
        if whole:
            return int(value)
        return value


def _a(node: yaml.Node) -> str:
    kind = yaml_text.kind(node)
    if isinstance(node, yaml.ScalarNode) and kind != "nothing":
        return f"'{node.value}'"
    return {"mapping": "a mapping", "list": "a list"}.get(kind, kind)


def _or(names: Iterable[str]) -> str:
    listed = list(names)
    if len(listed) > 1:
        return ", ".join(listed[:-1]) + " or " + listed[-1]
    return listed[0]
