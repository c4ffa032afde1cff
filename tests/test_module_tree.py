"""The tree of modules: its figures against a count of our own, and the page that
shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import FIXTURES
from one_page import Page

import fusiondoc
from fusiondoc.model.operator_places import Module, module_tree
from fusiondoc.model.report import Report
from fusiondoc.reports.html import render


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


def _walk(modules: Iterable[Module]) -> Iterable[Module]:
    for one in modules:
        yield one
        yield from _walk(one.inside)


def test_every_operator_with_a_layer_is_in_its_modules(bert: Report) -> None:
    found = {one.path: one for one in _walk(module_tree(bert))}
    for path in (
        "embeddings",
        "encoder.layer.1",
        "encoder.layer.1.attention.self",
        "pooler",
    ):
        inside = re.compile(re.escape(path) + r"(\.|\Z)")
        fused = [
            g
            for g in bert.groups
            for i in g.instances
            if i.layer and inside.match(i.layer)
        ]
        assert found[path].fused == sum(len(group.nodes) for group in fused)
        told = [
            pair
            for row in bert.unfused
            for pair in zip(row.layers, row.layer_counts)
        ]
        assert found[path].unfused == sum(
            number for layer, number in told if inside.match(layer)
        )
    # Equal layers.
    assert found["encoder.layer.1"].fused == found["encoder.layer.2"].fused > 0
    assert found["encoder.layer.1"].ms is not None and found["pooler"].ms is None


def test_counts_of_layers_are_those_of_the_row(bert: Report) -> None:
    for row in bert.unfused:
        assert len(row.layer_counts) == len(row.layers)
        assert sum(row.layer_counts) <= row.count
    (row,) = (row for row in bert.unfused if row.op == "aten::linear")
    assert row.layer_counts == (1,) * 19


def test_a_module_with_nothing_but_another_one_is_one_with_it(bert: Report) -> None:
    assert [one.name for one in module_tree(bert)] == [
        "embeddings",
        "encoder.layer",
        "pooler",
    ]
    (layer,) = (one for one in module_tree(bert) if one.path == "encoder.layer")
    assert [one.name for one in layer.inside] == ["0", "1", "2"]


def test_the_page_has_the_tree_and_reads_without_a_script(bert: Report) -> None:
    text = render(bert)
    page = Page(text)
    assert page.problems == []
    section = text[text.index('<section id="modules"') :]
    section = section[: section.index("</section>")]
    assert re.findall(r'class="module" title="([^"]+)"', section) == [
        one.path for one in _walk(module_tree(bert))
    ]
    assert "details open" in section


def test_a_log_without_layers_has_no_tree() -> None:
    report = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
    )
    assert module_tree(report) == ()
    assert 'id="modules"' not in render(report)


def test_a_column_sorts_the_modules(bert: Report, tmp_path: Path) -> None:
    from browser import CHROMIUM, DRIVER, Browser

    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    page = tmp_path / "report.html"
    page.write_text(render(bert), encoding="utf-8")
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(page, "")
        names = (
            "return [...document.querySelectorAll('#module-tree > ul > li')]"
            ".map(li => li.querySelector('.module').textContent)"
        )
        assert browser.run(names) == ["embeddings", "encoder.layer", "pooler"]
        browser.click('#module-tree [data-sort="v2"] button')
        assert browser.run(names) == ["encoder.layer", "embeddings", "pooler"]
        browser.click('#module-tree [data-sort="v2"] button')
        assert browser.run(names) == ["pooler", "embeddings", "encoder.layer"]
        browser.click('#module-tree [data-fold=""]')
        assert (
            browser.run(
                "return document.querySelectorAll('#module-tree details[open]').length"
            )
            == 0
        )
        width = "return document.documentElement.scrollWidth <= window.innerWidth"
        assert browser.run(width)
        assert browser.messages() == []
    finally:
        browser.close()
