"""The HTML report in a real browser: clicks, filter and keyboard do what they
should, nothing of a log runs, and a page of many groups stays usable (50, at night
200 with 2000 nodes)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Browser
from conftest import FIXTURES
from made_log import HOSTILE_OP, HOSTILE_SOURCE, hostile_log, large_log
from one_page import Page
from thorough import THOROUGH

from fusiondoc.model.report import Report
from fusiondoc.rendering import pages
from fusiondoc.reports.html import render
from fusiondoc.workflows.load import report_from

ENCODER = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
GROUPS = 200 if THOROUGH else 50
VISIBLE = ".program:not([hidden]) "


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@cache
def page_of(log: Path) -> tuple[Report, str]:
    report = report_from([str(log)])
    return report, render(report)


def opened(browser: Browser, folder: Path, log: Path, fragment: str = "") -> Report:
    report, text = page_of(log)
    page = folder / "report.html"
    page.write_text(text, encoding="utf-8")
    browser.open(
        Path("/dev/null")
    )  # the same page with another fragment would not be loaded again
    browser.messages()
    browser.open(page, fragment)
    return report


def details(browser: Browser) -> tuple[str, str]:
    heading = browser.run(
        "return document.getElementById('details-title').textContent"
    )
    return heading, browser.run(
        "return document.getElementById('details').textContent"
    )


def test_a_click_on_a_group_shows_it(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path, ENCODER)
    browser.click(VISIBLE + '.node[data-group="G3"]')
    group = next(group for group in report.groups if group.id == "G3")
    heading, text = details(browser)
    assert heading == "G3"
    assert group.nodes[0].user_source in text
    assert all(node.op in text for node in group.nodes)
    assert "with prim::CudaFusionGroup" in text and "return (" in text  # its IR
    assert "Float(4, 64, 1024)" in text
    assert str(group.evidence[0].line) in text.replace(",", "")
    pressed = "return [...document.querySelectorAll('.node[aria-pressed=true]')].map(n => n.dataset.group)"
    assert browser.run(pressed) == ["G3"]
    assert browser.messages() == []


def test_a_click_on_an_operator_shows_why_it_is_outside(
    browser: Browser, tmp_path: Path
) -> None:
    report = opened(browser, tmp_path, ENCODER)
    browser.run(
        "const s = document.getElementById('choose'); s.value = 'P1'; s.dispatchEvent(new Event('change'))"
    )
    browser.click(VISIBLE + '.node[data-reason="FD201"]')
    heading, text = details(browser)
    row = next(row for row in report.unfused if row.op == "aten::matmul")
    assert heading == "aten::matmul"
    assert row.user_source is not None and row.user_source in text
    assert (
        row.reason.code in text
        and row.reason.text in text
        and "the log states it" in text
    )
    assert "= aten::matmul(" in text  # its line of IR
    assert "rejecting node from fusion" in text
    assert str(row.evidence[0].line) in text.replace(",", "")


def test_the_filter_leaves_the_right_boxes(
    browser: Browser, tmp_path: Path
) -> None:
    report = opened(browser, tmp_path, ENCODER)
    browser.run(
        "const s = document.getElementById('choose'); s.value = 'P4'; s.dispatchEvent(new Event('change'))"
    )
    program = next(program for program in report.programs if program.id == "P4")
    shown = (
        f"return [...document.querySelectorAll('{VISIBLE}.node:not(.dim)')]"
        ".map(n => Number(n.dataset.i)).sort((a, b) => a - b)"
    )
    rows = (
        "return [...document.querySelectorAll('#unfused tbody tr')]"
        ".filter(r => !r.hidden).map(r => r.querySelector('[data-reason]').dataset.reason)"
    )
    for code in ("FD226", "FD201"):
        browser.click(f'#filter input[value="{code}"]')
        assert browser.run(shown) == [
            i for i, node in enumerate(program.nodes) if node.reason == code
        ]
        assert set(browser.run(rows)) == {code}
    browser.click('#filter input[value="fused"]')
    assert browser.run(shown) == [
        i for i, node in enumerate(program.nodes) if node.group
    ]
    browser.click('#filter input[value=""]')
    assert len(browser.run(shown)) == len(program.nodes)


def test_the_keyboard_does_all_of_it(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path, ENCODER)
    browser.run("document.getElementById('zoom-fit').focus()")
    browser.press("Tab")  # into the filter
    assert browser.run("return document.activeElement.name") == "reason"
    browser.press("Right")  # "Groups"
    assert browser.run("return document.activeElement.value") == "fused"
    browser.press("Tab")
    first = browser.run("return document.activeElement.dataset.group")
    browser.press("Enter")
    assert details(browser)[0] == first
    browser.press("Down", "Enter")
    second = browser.run("return document.activeElement.dataset.group")
    assert details(browser)[0] == second != first
    browser.press("End")
    last = browser.run("return document.activeElement.dataset.group")
    groups = next(
        p for p in report.programs if any(n.group == first for n in p.nodes)
    )
    assert last in {node.group for node in groups.nodes} - {first, second}
    outline = "return getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth"
    assert float(browser.run(outline).rstrip("px")) > 3  # the focus can be seen


def test_a_link_to_a_group_opens_it(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, ENCODER, "#G5")
    assert browser.until("return document.getElementById('G5').open")
    browser.click("#source a[href='#G2']")
    assert browser.until("return document.getElementById('G2').open")


@pytest.mark.parametrize("width", [380, 800, 1400])
def test_the_page_is_never_wider_than_the_window(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    for log in (ENCODER, FIXTURES / "captures" / "nvfuser-2.1.2-composite"):
        opened(browser, tmp_path, log)
        browser.resize(width, 900)
        browser.run(
            "document.querySelectorAll('details').forEach(d => { d.open = true; })"
        )
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_nothing_of_the_log_runs(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "hostile.log"
    log.write_text(hostile_log(), encoding="utf-8")
    report = opened(browser, tmp_path, log)
    # The texts did come through the parser: else this proves nothing.
    assert HOSTILE_OP in {row.op for row in report.unfused}
    assert any(
        (row.source or "").startswith(HOSTILE_SOURCE) for row in report.unfused
    )
    assert any(
        node.source and HOSTILE_SOURCE in node.source
        for node in report.groups[0].nodes
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert Page(page).problems == []
    assert Page(page).tags.isdisjoint({"img", "iframe", "b"})
    boxes = browser.run(
        f"return document.querySelectorAll('{VISIBLE}.node').length"
    )
    assert boxes == len(report.programs[0].nodes)
    for box in range(boxes):
        browser.run(
            f"document.querySelectorAll('{VISIBLE}.node')[arguments[0]]"
            ".dispatchEvent(new MouseEvent('click', { bubbles: true }))",
            box,
        )
        assert (
            browser.run(
                "return document.querySelectorAll('#details script, #details img').length"
            )
            == 0
        )
    browser.run(
        "document.querySelectorAll('details').forEach(d => { d.open = true; })"
    )
    assert HOSTILE_SOURCE in browser.run("return document.body.textContent")
    assert browser.alert() is None
    assert browser.run(
        "return window.ran === undefined && document.scripts.length === 2"
    )
    assert browser.messages() == []


def test_the_policy_forbids_what_is_not_of_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    """The second wall: even markup that came through would not run."""
    log = tmp_path / "hostile.log"
    log.write_text(hostile_log(), encoding="utf-8")
    opened(browser, tmp_path, log)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true';"
        "document.body.append(s);"
        "const i = document.createElement('div'); i.innerHTML = '<img src=x onerror=\"window.ran = true\">';"
        "document.body.append(i);"
    )
    assert browser.run("return window.ran === undefined")
    assert any(
        "Content Security Policy" in message for message in browser.messages()
    )


@pytest.mark.parametrize("log", ["large", "hostile"])
def test_rows_that_are_read_afterwards_are_those_of_the_page(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    report = report_of_text(
        large_log(groups=12, loose=3) if log == "large" else hostile_log(), tmp_path
    )
    rows = "document.getElementById('groups').outerHTML.replace(/>\\s+</g, '><')"
    found = []
    for at_once in (1000, 1):
        monkeypatch.setattr(pages, "AT_ONCE", at_once)
        page = tmp_path / f"{at_once}.html"
        page.write_text(render(report), encoding="utf-8")
        groups = (
            page.read_text("utf-8")
            .partition('<section id="groups"')[2]
            .partition("</section>")[0]
        )
        assert groups.count("<noscript") == (len(report.groups) - 1) * (
            at_once == 1
        )
        last = report.groups[-1].id
        browser.open(page, "#" + last)
        assert browser.until(f"return document.getElementById('{last}')?.open")
        assert browser.until("return !document.querySelector('noscript')", 60)
        found.append(browser.run(f"return {rows}"))
        assert browser.run(
            "return window.ran === undefined && document.scripts.length === 2"
        )
        assert browser.messages() == []
    assert found[0] == found[1]


def report_of_text(text: str, folder: Path) -> Report:
    (folder / "one.log").write_text(text, encoding="utf-8")
    return report_from([str(folder / "one.log")])


def test_a_page_of_many_groups_and_nodes(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "large.log"
    log.write_text(large_log(groups=GROUPS, loose=9 * GROUPS))
    report = opened(browser, tmp_path, log)
    assert len(report.groups) == GROUPS and len(report.kernels) == GROUPS
    assert sum(len(program.nodes) for program in report.programs) == 10 * GROUPS
    size = (tmp_path / "report.html").stat().st_size
    assert size < 1_200_000 + 19_000 * GROUPS
    paint = browser.run(
        "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    done = browser.run(
        "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    )
    with capsys.disabled():
        took = f"first paint {paint:.0f} ms, ready {done:.0f} ms"
        print(
            f"\n  {GROUPS} groups, {10 * GROUPS} nodes: {size / 1e6:.2f} MB, {took}"
        )
    assert 0 < paint < 20_000
    # A large picture waits until it is looked at.
    held = VISIBLE + '.node[tabindex="0"]'
    assert browser.run(f"return document.querySelector('{held}')") is None
    browser.run("document.getElementById('canvas').scrollIntoView()")
    assert browser.until(f"return document.querySelector('{held}') !== null")
    assert (
        browser.run(f"return document.querySelectorAll('{VISIBLE}.node').length")
        == 10 * GROUPS
    )
    browser.click(VISIBLE + '.node[data-group="G45"]')
    assert details(browser)[0] == "G45"
    assert (
        Page((tmp_path / "report.html").read_text(encoding="utf-8")).problems == []
    )


def test_a_region_leads_to_the_plan_of_its_executor(
    browser: Browser, tmp_path: Path
) -> None:
    report = opened(
        browser,
        tmp_path,
        FIXTURES / "logs" / "nvfuser-2.1.2-no-autodiff-optimized.log.xz",
    )
    outer = next(
        p for p in report.programs if any(node.kind == "region" for node in p.nodes)
    )
    select = "const s = document.getElementById('choose');"
    browser.run(
        select + "s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
        outer.id,
    )
    browser.click(VISIBLE + ".node.region")
    browser.click("#details button")
    inner = next(node.program for node in outer.nodes if node.kind == "region")
    assert browser.run(select + "return s.value") == inner
    assert (
        browser.run(f"return document.querySelector('{VISIBLE}').id")
        == f"picture-{inner}"
    )


def test_overview_fit_search_and_sorting(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text(large_log(groups=25, loose=60))
    opened(browser, tmp_path, log)
    canvas = "const c = document.getElementById('canvas'), m = document.getElementById('overview');"
    assert browser.until(
        canvas
        + "return !m.hidden && m.height > 0 && c.scrollHeight > 2 * c.clientHeight"
    )
    middle = browser.run("const b = document.getElementById('overview').getBoundingClientRect();"
                         "return [b.left + b.width / 2, b.top + b.height / 2]")  # fmt: skip
    browser.run(
        canvas
        + "m.setPointerCapture = () => {}; m.dispatchEvent(new PointerEvent('pointerdown',"
        " { clientX: arguments[0], clientY: arguments[1], pointerId: 1 }))",
        *middle,
    )
    assert (
        0.3
        < browser.run(
            canvas + "return (c.scrollTop + c.clientHeight / 2) / c.scrollHeight"
        )
        < 0.7
    )
    browser.click("#zoom-fit")
    assert browser.run(
        canvas + "return m.hidden && c.scrollHeight <= c.clientHeight + 1"
    )
    rows = "[...document.querySelectorAll('#kernels tbody tr:not(.missed)')]"
    names = f"return {rows}.map(row => row.cells[0].textContent.trim())"
    search = (
        "const s = document.getElementById('search'); s.value = arguments[0];"
        " s.dispatchEvent(new Event('input'))"
    )
    browser.run(search, "KERNEL7")
    assert browser.until(
        "return document.getElementById('found').textContent !== ''"
    )
    assert browser.run(names) == ["K7 kernel7"]
    browser.run(search, "")
    assert browser.until(
        "return document.getElementById('found').textContent === ''"
    )
    assert len(browser.run(names)) == 25
    head = "document.querySelectorAll('#unfused thead button')[3]"
    moves = "return [...document.querySelectorAll('#unfused tbody tr')].map(r => r.cells[3].textContent)"
    browser.run(head + ".click()")
    found = [int(text.replace(",", "").split()[0]) for text in browser.run(moves)]
    assert found == sorted(found, reverse=True)
    assert (
        browser.run(f"return {head}.parentElement.getAttribute('aria-sort')")
        == "descending"
    )
    assert browser.messages() == []


BROKEN_WORDS = """
const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode;
  if (node.parentElement.closest("pre, script, style, svg, .quotes, .sr")) continue;
  for (const word of node.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(one => Math.round(one.top))).size > 1) found.push(word[0]);
  }
}
return found;"""


@pytest.mark.parametrize(
    "width",
    [
        390,
        *(pytest.param(wider, marks=pytest.mark.nightly) for wider in (800, 1280)),
    ],
)
def test_no_name_breaks_within_a_word(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    log = tmp_path / "select.log"
    log.write_text(large_log(groups=20, loose=400))
    for one in (log, FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"):
        opened(browser, tmp_path, one)
        browser.resize(width, 900)
        browser.run(
            "document.querySelectorAll('details').forEach(d => { d.open = true; })"
        )
        assert browser.run(BROKEN_WORDS) == []


def test_no_table_is_cut_at_a_usual_width(browser: Browser, tmp_path: Path) -> None:
    opened(
        browser, tmp_path, FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz"
    )
    browser.resize(1400, 900)
    cut = "document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth + 1)"
    assert browser.run(f"return [...{cut}.map(s => s.ariaLabel)") == []
