"""What the documentation site adds to the pages: links between them, options of the
commands, the API."""

from __future__ import annotations

import html
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from command_line import ROOT

import fusiondoc


def tool(name: str):
    spec = importlib.util.spec_from_file_location(
        f"site_{name}", ROOT / "docs" / "_site" / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = tool("hooks")


@pytest.mark.parametrize(
    ("link", "page", "expected"),
    [
        (
            "[a](../../fusiondoc/diagnosis/pages/FD201.md)",
            "findings/README.md",
            "[a](FD201.md)",
        ),
        (
            "[a](../fusiondoc/diagnosis/pages/glossary.md#plan)",
            "index.md",
            "[a](glossary.md#plan)",
        ),
        (
            "[a](../../SECURITY.md)",
            "commands/repro.md",
            "[a](../project/security.md)",
        ),
        ("[`a`](docs/ci.md)", "project/contributing.md", "[`a`](../ci.md)"),
        ("[a](parse.md#x)", "commands/diagnose.md", "[a](parse.md#x)"),
        ("[a](#here)", "ci.md", "[a](#here)"),
        (
            "[a](https://semver.org)",
            "project/changelog.md",
            "[a](https://semver.org)",
        ),
        ("[`a.yaml`](../../examples/a.yaml)", "commands/check.md", "`a.yaml`"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(
    link: str, page: str, expected: str
) -> None:
    assert hooks.linked(link, page) == expected


def test_every_option_of_every_command_is_on_its_page() -> None:
    from fusiondoc.cli import COMMANDS, command_of

    for name in COMMANDS:
        text = hooks.options_of(name)
        command = command_of(name)
        for option in (
            word
            for param in command.params
            for word in param.opts
            if word.startswith("--")
        ):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", text), (name, option)
        assert f"[`{name}`]({name}.md)" in hooks.commands_page()


def test_the_api_page_has_every_public_name_with_its_docstring() -> None:
    import fusiondoc.api

    text = hooks.api_page()
    for name in fusiondoc.api.__all__:
        assert re.search(rf"^## (fusiondoc\.)?{name}$", text, re.MULTILINE), name
    assert "needs neither torch nor a GPU" in text and "* `UsageError`: " in text
    assert re.search(r"^    peak: float \| None = None,$", text, re.MULTILINE)
    assert not re.search(r"(?<!`)``[a-z]|:class:|doctest", text)


def test_pages_of_the_navigation_exist() -> None:
    shown = re.findall(
        r"([\w/-]+\.md)$",
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    made = {"api.md", "recipes.md", *hooks.ELSEWHERE.values()}
    assert len(shown) > 10
    assert [
        name
        for name in shown
        if name not in made and not (ROOT / "docs" / name).is_file()
    ] == []


def test_parts_of_a_report_are_chosen_by_their_headings() -> None:
    text = "Target  x\nFused  y\n\nGroups\n G1\n\n G2\n\nFindings\n note\n\nLog\n 1 line\n"
    parts_of = tool("shown_outputs").parts_of
    assert (
        parts_of(text, ["first", "Findings"])
        == "Target  x\nFused  y\n\n...\n\nFindings\n note\n\n...\n"
    )
    assert parts_of(text, ["Groups"]) == "...\n\nGroups\n G1\n\n G2\n\n...\n"
    with pytest.raises(SystemExit, match="no part"):
        parts_of(text, ["Kernels"])


def test_every_shown_output_is_there() -> None:
    for page in sorted(Path(ROOT, "docs").rglob("*.md")):
        for found in tool("shown_outputs").BLOCK.finditer(
            page.read_text(encoding="utf-8")
        ):
            assert found["shown"].strip(), (page.name, found["command"])


def test_the_page_of_the_encoder_layer_says_what_the_program_says_today(
    tmp_path: Path,
) -> None:
    folder = tool("shown_outputs").prepared(tmp_path)
    report = fusiondoc.parse(str(folder / "encoder-layer"))
    text = (ROOT / "docs" / "encoder-layer.html").read_text(encoding="utf-8")
    page = html.unescape(text.replace("<wbr>", ""))
    assert len(report.findings) > 3
    assert [one.message for one in report.findings if one.message not in page] == []
    assert not any("\n" in one.message for one in report.findings)
