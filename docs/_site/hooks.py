"""What MkDocs adds to the pages of this folder: options of the commands (from
click), the finding pages and the glossary (from the package), the Python API (from
docstrings), and links between them."""

from __future__ import annotations

import ast
import importlib
import inspect
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
PAGES = "fusiondoc/diagnosis/pages"
ELSEWHERE = {
    f"{PAGES}/glossary.md": "glossary.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
}
"""Path in the repository -> path in the site, for Markdown files outside of this
folder."""


def on_config(config: Any) -> Any:
    from fusiondoc.cli import COMMANDS
    from fusiondoc.model.codes import CODES

    index = (ROOT / "docs" / "findings" / "README.md").read_text(encoding="utf-8")
    families = [
        {
            title: [
                f"findings/{code}.md"
                for code in CODES
                if code.startswith(title[:3])
            ]
        }
        for title in re.findall(r"^## (FD\dxx .+)$", index, re.MULTILINE)
    ]
    commands = [{name: f"commands/{name}.md"} for name in COMMANDS]
    generated = {
        "Commands": ["commands/index.md", *commands],
        "Finding codes": ["findings/README.md", *families],
    }
    for entry in config.nav:
        for title in entry:
            entry[title] = generated.get(title, entry[title])
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from fusiondoc.diagnosis.recipe_pages import recipes_page
    from fusiondoc.model.codes import CODES

    sources = {
        **ELSEWHERE,
        **{f"{PAGES}/{code}.md": f"findings/{code}.md" for code in CODES},
    }
    made = {
        uri: (ROOT / path).read_text(encoding="utf-8")
        for path, uri in sources.items()
        if path != "README.md" and (ROOT / path).is_file()
    }
    made["commands/index.md"] = commands_page()
    made["api.md"] = api_page()
    made["recipes.md"] = recipes_page()
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    uri = page.file.src_uri
    name = re.fullmatch(r"commands/(\w+)\.md", uri)
    if name and name[1] != "index":
        markdown = f"{markdown.rstrip()}\n\n{options_of(name[1])}"
    return linked(markdown, uri)


def linked(markdown: str, uri: str) -> str:
    """Links that lead to files of the repository, made to lead to their page of the
    site, or taken away."""
    return re.sub(
        r"\[([^\]]+)\]\(([^)\s]+)\)", lambda link: _link(link, uri), markdown
    )


def _link(link: re.Match[str], uri: str) -> str:
    text, (path, *anchor) = link[1], link[2].split("#", 1)
    origins = {
        site: source for source, site in ELSEWHERE.items() if source != "README.md"
    }
    if not path or re.match(r"\w+:", path):
        return link[0]
    source = origins.get(uri) or (
        f"{PAGES}/x" if re.match(r"findings/FD", uri) else f"docs/{uri}"
    )
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target in ELSEWHERE:
        site = ELSEWHERE[target]
    elif target.startswith(f"{PAGES}/"):
        site = f"findings/{posixpath.basename(target)}"
    elif target.startswith("docs/"):
        site = target[len("docs/") :]
    else:
        return text
    relative = posixpath.relpath(site, posixpath.dirname(uri) or ".")
    return f"[{text}]({'#'.join([relative, *anchor])})"


def commands_page() -> str:
    """The table of the commands."""
    from fusiondoc.cli import COMMANDS, cli

    about = inspect.cleandoc(cli.help or "").split("\b")[0].strip()
    rows = [
        f"| [`{name}`]({name}.md) | {_cell(line)} |"
        for name, line in COMMANDS.items()
    ]
    return "\n".join(
        ["# Commands", "", about, "", "| command | does |", "|---|---|", *rows, ""]
    )


def options_of(name: str) -> str:
    """Usage and options of a command and of its subcommands, as Markdown."""
    from fusiondoc.cli import command_of

    return "## Options\n\n" + "\n".join(
        _options(command_of(name), f"fusiondoc {name}")
    )


def _options(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield "| option | |\n|---|---|"
    for record in (
        param.get_help_record(context) for param in command.get_params(context)
    ):
        if record is not None:
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |"
    yield ""
    if isinstance(command, click.Group):
        for name, sub in command.commands.items():
            about = _cell((sub.help or "").split("\b")[0])
            yield f"### {path} {name}\n\n{about}\n"
            yield from _options(sub, f"{path} {name}")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def api_page() -> str:
    """The functions and types that ``import fusiondoc`` offers, from their
    docstrings."""
    api = importlib.import_module("fusiondoc.api")
    errors = importlib.import_module("fusiondoc.errors")
    things = [getattr(api, name) for name in api.__all__]
    functions = [one for one in things if inspect.isfunction(one)]
    parts = ["# Python API", _prose(api.__doc__ or "")]
    for one in functions:
        parts += [
            f"## fusiondoc.{one.__name__}",
            _signature(one),
            _prose(one.__doc__ or ""),
        ]
    parts += ["## Errors", _prose("All are a ``fusiondoc.errors.FusiondocError``.")]
    for error in (errors.UsageError, errors.ModelFailed, errors.CannotRun):
        parts += [f"### {error.__name__}", _prose(error.__doc__ or "")]
    for one in things:
        if inspect.isclass(one):
            parts += [
                f"## {one.__name__}",
                _prose(one.__doc__ or ""),
                *_members(one),
            ]
    model = importlib.import_module("fusiondoc.model.report")
    parts += ["## Types of a report", "The fields are those of the JSON report."]
    for name, one in vars(model).items():
        if (
            inspect.isclass(one)
            and one.__module__ == model.__name__
            and name != "Report"
            and name[0] != "_"
        ):
            parts += [f"### {name}", _prose(one.__doc__ or ""), *_members(one)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _signature(function: Any) -> str:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    name, inside = f"fusiondoc.{node.name}", ast.unparse(node.args)
    if len(name) + len(inside) + len(result) > 86:
        inside = "\n" + "".join(f"    {one},\n" for one in _split(inside))
    return f"```python\n{name}({inside}){result}\n```"


def _split(arguments: str) -> list[str]:
    """Arguments of a signature, at the commas outside of brackets."""
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [re.sub(r"(\w|\])=", r"\1 = ", one.strip()) for one in found]


def _members(one: type) -> list[str]:
    """Fields of a dataclass with their docstrings, properties and methods, as a
    table."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows = []
    for node, after in zip(tree.body, [*tree.body[1:], None]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            rows.append(
                (node.target.id, ast.unparse(node.annotation), _constant(after))
            )
        elif isinstance(node, ast.FunctionDef):
            result = ast.unparse(node.returns) if node.returns else ""
            bare = any(
                isinstance(by, ast.Name) and by.id == "property"
                for by in node.decorator_list
            )
            rows.append(
                (
                    node.name if bare else f"{node.name}()",
                    result,
                    ast.get_docstring(node) or "",
                )
            )
    lines = [
        f"| `{name}` | `{_cell(kind)}` | {_cell(_code(text))} |"
        for name, kind, text in rows
        if not name.startswith("_")
    ]
    return (
        ["\n".join(["| name | type | |", "|---|---|---|", *lines])] if lines else []
    )


def _constant(node: ast.stmt | None) -> str:
    """The docstring that a statement is; empty for any other."""
    is_one = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return str(node.value.value) if is_one else ""


def _code(text: str) -> str:
    """reStructuredText as docstrings use it, in Markdown."""
    text = re.sub(r":(?:class|mod|func|meth):`([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


def _prose(docstring: str) -> str:
    """A docstring as Markdown: sections such as ``Args:`` become lists, indented
    code stays code."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        section = re.match(r"(Args|Raises|Returns|Example|Yields):\n", paragraph)
        body = textwrap.dedent(paragraph[section.end() :]) if section else paragraph
        if section and (section[1] == "Example" or body.startswith(">>>")):
            code = re.sub(r"  # doctest: \+SKIP", "", body)
            parts.append(f"**{section[1]}**\n\n```pycon\n{code}\n```")
        elif section and section[1] in ("Args", "Raises"):
            items = re.split(r"\n(?=\S)", body)
            listed = [
                re.sub(r"^([\w, ]+):", r"`\1`:", _cell(item)) for item in items
            ]
            parts.append(
                f"**{section[1]}**\n\n"
                + "\n".join(f"* {_code(item)}" for item in listed)
            )
        else:
            parts.append(_code(paragraph))
    return "\n\n".join(parts)
