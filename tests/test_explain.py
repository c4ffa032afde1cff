"""Every finding code has a page, every page a code, and the pages come with every
installation."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, Run

from fusiondoc.cli.explain import command, reflow
from fusiondoc.errors import UsageError
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import SEVERITIES

PAGES = ROOT / "fusiondoc" / "diagnosis" / "pages"


def test_every_code_has_a_page_and_every_page_a_code():
    assert {page.stem for page in PAGES.glob("*.md")} == {*CODES, "glossary"}
    assert [code.code for code in CODES.values()] == sorted(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_page_has_its_title_an_example_and_what_to_do(code: str):
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {code} {CODES[code].title}\n")
    assert "\n## Example\n" in text and "\n## What to do\n" in text
    assert 18 <= len(text.splitlines()) <= 45
    assert max(map(len, text.splitlines())) <= 120
    assert CODES[code].severity in SEVERITIES
    for other in re.findall(r"FD\d{3}", text):
        assert other in CODES, (code, other)


def test_knobs_and_commands_that_pages_recommend_exist():
    from fusiondoc.fuser_knobs.checks import check_knob

    text = "\n".join(
        page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")
    )
    recommended = set(re.findall(r"--knob (\w+)=([\w:,]+)", text))
    assert len(recommended) > 5
    for name, value in recommended:
        check_knob(name, value)


def test_pages_are_in_the_package_data():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert "pages/*.md" in setup["options.package_data"]["fusiondoc.diagnosis"]


def test_the_index_in_docs_links_to_every_page():
    index = ROOT / "docs" / "findings" / "README.md"
    links = re.findall(
        r"\[(FD\d{3})\]\((\S+)\) \| (\w+) \| (.+) \|",
        index.read_text(encoding="utf-8"),
    )
    assert [(code, severity, title) for code, _, severity, title in links] == [
        (code.code, code.severity, code.title) for code in CODES.values()
    ]
    assert all((index.parent / Path(link)).is_file() for _, link, _, _ in links)


def test_explain_prints_pages_lists_codes_and_refuses_slips(fusiondoc: Run):
    done = fusiondoc("explain", "fd201")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout.split()
        == (PAGES / "FD201.md").read_text(encoding="utf-8").split()
    )
    listed = fusiondoc("explain").stdout
    assert re.findall(r"^  (FD\d{3})", listed, re.MULTILINE) == sorted(CODES)
    assert max(map(len, listed.splitlines())) <= 80
    for slip, meant in (("FD20l", "'FD2"), ("1", "'FD001'"), ("FD0201", "'FD201'")):
        done = fusiondoc("explain", slip)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Did you mean {meant}" in done.stderr, slip


@pytest.mark.parametrize("code", sorted(CODES))
def test_pages_are_wrapped_to_the_terminal(code: str):
    page = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    shown = reflow(page, 80)
    assert shown.split() == page.split()
    kept = set(page.split("\n"))
    for line in shown.split("\n"):
        # Code, tables and what cannot be broken stay as they are in the page.
        assert len(line) <= 80 or (
            line in kept and line.startswith(("    ", "|", "#"))
        ), line
    literal = [
        line for line in page.split("\n") if line.startswith(("    ", "|", "#"))
    ]
    assert set(literal) <= set(shown.split("\n"))


def test_lists_paragraphs_and_code_are_told_apart():
    page = "# T\n\none two\nthree `a b c` four\n\n* item one\n  goes on\n* item two\n\n    code   as is\n"
    shown = reflow(page, 12)
    assert shown == (
        "# T\n\none two\nthree\n`a b c` four\n\n* item one\n  goes on\n* item two\n\n    code   as is\n"
    )


def explain(*args: str) -> Result:
    return CliRunner().invoke(command, args, env={"COLUMNS": "80"})


def test_the_glossary_is_printed_whole_or_by_term():
    done = explain("--glossary")
    assert done.exit_code == 0
    assert (
        done.stdout.split()
        == (PAGES / "glossary.md").read_text(encoding="utf-8").split()
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    two = explain("--glossary", "GUARD", "fusion group").stdout
    assert re.findall(r"^## (.+)$", two, re.MULTILINE) == ["Guard", "Fusion group"]
    with pytest.raises(
        UsageError, match=r"no entry 'gaurd'\. Did you mean 'guard'"
    ):
        CliRunner().invoke(
            command, ["--glossary", "guard", "gaurd"], catch_exceptions=False
        )


def test_the_glossary_has_the_terms_of_the_reports_in_order_and_real_codes():
    text = (PAGES / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert terms == sorted(terms, key=str.lower) and len(set(terms)) == len(terms)
    assert {
        "Fusion group",
        "Guard",
        "Specialisation",
        "Plan",
        "Launch-bound",
        "Bailout",
    } <= set(terms)
    assert set(re.findall(r"FD\d{3}", text)) <= set(CODES)
    assert max(map(len, text.splitlines())) <= 120
