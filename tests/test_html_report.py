"""The HTML report of real logs: a well-formed page that holds what the JSON report
says and refers to nothing outside."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT, Run
from made_log import large_log
from one_page import Page
from thorough import every, least

import fusiondoc
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import Try
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Dump, Segment
from fusiondoc.model.runs import Peak, Speed, Spread, Verification
from fusiondoc.parsers.read import read_logs
from fusiondoc.rendering import pages
from fusiondoc.rendering.hues import colours
from fusiondoc.rendering.layered_drawing import draw
from fusiondoc.reports.html import render
from fusiondoc.reports.markdown import render as render_markdown
from fusiondoc.views import report_program
from fusiondoc.views.report_context import ReportContext, can_change
from fusiondoc.workflows import load
from fusiondoc.workflows.load import report_from

LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"


def texts(page: str) -> str:
    """What the page says, without its tags."""
    return unescape(re.sub(r"<[^>]+>", " ", page.replace("<wbr>", "")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::index_select ×4", "aten::<wbr>index_<wbr>select ×4"),
        ("torch._C._jit_texpr", "torch.<wbr>_C.<wbr>_jit_<wbr>texpr"),
        ("models/block.py:17", "models/<wbr>block.<wbr>py:17"),
        ("aten::add 0.123456789012 __cuda__", "aten::add 0.123456789012 __cuda__"),
        ("nnc --no-run", 'nnc <span class="whole">--no-run</span>'),
        ("<b>x_y</b>::\x1b[31m", "&lt;b&gt;x_<wbr>y&lt;/b&gt;::\\x1b[31m"),
    ],
)
def test_long_names_may_break_between_their_parts_alone(
    text: str, shown: str
) -> None:
    assert pages.breakable(text) == shown


@pytest.mark.parametrize("log", [*every(3, LOGS), CAPTURE], ids=lambda p: p.name)
def test_every_log_gives_a_valid_page(log: Path) -> None:
    page = render(report_from([str(log)]))
    read = Page(page)
    assert read.problems == []
    assert read.scripts in ([None], ["application/json", None])
    assert {"main", "nav", "header", "footer", "h1", "title"} <= read.tags
    assert (
        re.findall(r"https?://(?!www\.w3\.org)[^\s\"'<]+", page.split("<body>")[0])
        == []
    )
    assert "@import" not in page and "url(" not in page.split("</style>")[0]


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_the_page_names_every_group_kernel_and_reason(log: Path) -> None:
    report = report_from([str(log)])
    page = render(report)
    said = texts(page)
    for group in report.groups:
        assert f'id="{group.id}"' in page
        for node in group.nodes:
            assert node.op in said
    for kernel in report.kernels:
        assert f'id="{kernel.id}"' in page and kernel.name in said
    for row in report.unfused:
        if row.op != "prim::GetAttr":
            assert row.op in said and row.reason.code in said
    for finding in report.findings:
        assert finding.message in said.replace(
            "  ", " "
        ) or finding.message in unescape(page)


def test_the_picture_has_each_node_of_each_program_once() -> None:
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz")]
    )
    page = render(report)
    for program in report.programs:
        start = page.index(f'id="picture-{program.id}"')
        picture = page[start : page.index("</svg>", start)]
        drawn = sorted(map(int, re.findall(r'data-i="(\d+)"', picture)))
        assert drawn == [
            i for i, node in enumerate(program.nodes) if node.op != "prim::GetAttr"
        ]
        assert picture.count("marker-end") == len(program.edges)
        for node in program.nodes:
            if node.group:
                assert f'data-group="{node.group}"' in picture


def test_the_ir_of_a_group_is_that_of_the_log() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
    import lzma

    lines = lzma.decompress(log.read_bytes()).decode().split("\n")
    report = report_from([str(log)])
    said = texts(render(report))
    for group in report.groups:
        at = group.evidence[0].line - 1
        assert "with prim::CudaFusionGroup" in lines[at]
        body = []
        for line in lines[at:]:
            body.append(line.split("] ", 1)[1])
            if body[-1].startswith("  return ("):
                break
        flat = re.sub(r"\s+", "", "".join(body))
        assert flat in re.sub(r"\s+", "", said)


def test_the_source_of_a_capture_is_marked_by_group() -> None:
    page = render(report_from([str(CAPTURE)]))
    start = page.index('id="source"')
    source = page[start : page.index("</section>", start)]
    for line in (18, 19):  # raw records: both lines are in the map of the probe
        row = next(
            r
            for r in re.findall(r"<tr.*?</tr>", source)
            if f'<td class="ln">{line}</td>' in r
        )
        assert 'class="in"' in row and 'href="#G1"' in row


def test_the_page_is_the_same_each_time_but_for_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        load, "read_logs", read_logs
    )  # both times, see parsed_once.py
    log = str(FIXTURES / "logs" / "nnc-2.11-rejects.log.xz")
    assert render(report_from([log])) == render(report_from([log]))


def test_format_comes_from_the_ending(fusiondoc: Run, tmp_path: Path) -> None:
    done = fusiondoc("parse", LOGS[0], "-o", "report.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        (tmp_path / "report.html")
        .read_text(encoding="utf-8")
        .startswith("<!DOCTYPE html>")
    )
    done = fusiondoc("parse", LOGS[0], "--format", "html")
    assert done.stdout.startswith("<!DOCTYPE html>") and done.stderr == ""


def test_stdin_has_no_second_reading(tmp_path: Path, fusiondoc: Run) -> None:
    import lzma

    log = lzma.decompress(
        (FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz").read_bytes()
    ).decode()
    done = fusiondoc("parse", "-", "--format", "html", input=log)
    assert done.returncode == 0, done.stderr
    assert Page(done.stdout).problems == []
    assert "IR of G1" in done.stdout  # rebuilt from the report


@pytest.mark.torch
def test_the_capture_keeps_the_sources_of_the_program(
    tmp_path: Path, fusiondoc: Run
) -> None:
    model = tmp_path / "mine.py"
    text = (ROOT / "examples" / "bias_gelu.py").read_text()
    model.write_text(text)
    done = fusiondoc("diagnose", "mine.py", "--fuser", "nnc", "-o", "a.html")
    assert done.returncode == 0, done.stderr
    capture = next(
        path for path in (tmp_path / ".fusiondoc").iterdir() if path.is_dir()
    )
    index = json.loads((capture / "sources" / "index.json").read_text())
    assert [Path(name).name for name in index] == ["mine.py"]
    assert (capture / "sources" / index[str(model)]).read_text() == text
    model.unlink()
    again = fusiondoc("parse", "--format", "html")
    assert "inner" in texts(again.stdout) and "not available" not in again.stdout


def test_a_damaged_index_of_sources_is_no_trouble(tmp_path: Path) -> None:
    from fusiondoc.captures.trust import keep_sources, kept_source

    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "secret.txt").write_text("no source\n")
    (tmp_path / "big.py").write_bytes(b"#" * (1 << 21))
    capture = tmp_path / "capture"
    capture.mkdir()
    keep_sources(
        capture, ["a.py", "secret.txt", "big.py", "gone.py", "\0.py"], tmp_path
    )
    assert kept_source(capture, "a.py") == "x = 1\n"
    assert [
        kept_source(capture, name) for name in ("secret.txt", "big.py", "gone.py")
    ] == [None] * 3
    index = capture / "sources" / "index.json"
    for damaged in ('{"a.py": "../../a.py"}', "[1]", "{", '{"a.py": 3}'):
        index.write_text(damaged)
        assert kept_source(capture, "a.py") is None


@pytest.mark.parametrize(
    "edges", [[], [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 0)], [(2, 2), (0, 2)]]
)
def test_boxes_never_overlap(edges: list[tuple[int, int]]) -> None:
    sizes = [(100.0, 30.0), (150.0, 60.0), (80.0, 20.0), *[(120.0, 30.0)] * 20]
    drawing = draw(sizes, edges)
    assert sorted(drawing.order) == list(range(len(sizes)))
    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(drawing.corners, sizes)]
    for i, a in enumerate(boxes):
        assert (
            a[0] >= 0
            and a[2] <= drawing.width
            and a[1] >= 0
            and a[3] <= drawing.height
        )
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_edges_lead_down() -> None:
    edges = [(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)]
    drawing = draw([(90.0, 30.0)] * 4, edges)
    for (a, b), route in zip(edges, drawing.routes):
        assert drawing.corners[a][1] < drawing.corners[b][1]
        assert (
            route[0][1] == drawing.corners[a][1] + 30
            and route[-1][1] == drawing.corners[b][1]
        )


def test_what_other_parts_fill_is_shown() -> None:
    """Segments, dumps, peak, speed, tries and numbers, on a report of a real log
    that got them."""
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz")]
    )
    segment = Segment(
        0,
        "persistent",
        (("pointwise", "a <reduction> is in it"),),
        ("aten::add",),
        ("K1",),
    )
    kernel = replace(
        report.kernels[0],
        dumps=(Dump("scheduler_params", "===== Pointwise & <Parameters> ====="),),
        occupancy=0.5,
        scheduler="persistent",
        bound="cache",
        peak_fraction=None,
        gb_per_s=Spread(4000.0, 5000.0, 6000.0),
    )
    filled = replace(
        report,
        groups=(
            replace(
                report.groups[0], segments=(segment, replace(segment, index=1))
            ),
            *report.groups[1:],
        ),
        kernels=(kernel, *report.kernels[1:]),
        peak=Peak(4000.0, "table"),
        speed=(
            Speed("eager", "forward", 0, Spread(2.0, 3.0, 4.0), 20),
            Speed(
                "fused",
                "forward",
                0,
                Spread(1.0, 2.0, 2.5),
                20,
                900.0,
                1 << 20,
                (),
                Ratio(1.5, 1.4, 1.6),
            ),
        ),
        speed_note="times without dumps",
        verification=(
            Verification(
                1, 0, "forward", "out", False, 0.5, 0.25, 1e-4, True, True, "value"
            ),
        ),
        tries=(
            Try("unchanged", (), 2, 7, 3, 0, 1000.0, 1e-3, 0),
            Try("horizontal=off", ("FD234",), 2, 9, 1, 0, 1200.0, 9e-4, 0),
            Try("trace", (), 0, 0, 0, 0, None, None, 3, "ValueError: <no>"),
        ),
    )
    page = render(filled)
    assert Page(page).problems == []
    said = texts(page)
    for text in (
        *(
            "a <reduction> is in it",
            "===== Pointwise & <Parameters> =====",
            "served from a cache",
        ),
        *(
            "125 % of peak",
            "Above 100 %",
            "Peak 4,000 GB/s (table)",
            "1.50× the speed of eager",
        ),
        *(
            "times without dumps",
            "1.05 MB",
            "0/1",
            "9 (+2)",
            "1 (-2)",
            "failed",
            "trace: ValueError: <no>",
            "900 ms",
        ),
    ):
        assert text in said, text
    comment = render_markdown(filled)
    assert "125 %" in comment and "1.50× the speed of eager" in comment


def test_a_report_without_any_texts() -> None:
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz")]
    )
    page = render(replace(report, texts=None))
    assert Page(page).problems == []
    assert "not available" in page and "IR of G1" in page


def test_an_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "empty.log"
    log.write_text("")
    page = render(report_from([str(log)]))
    assert Page(page).problems == []
    assert "The log shows no plan of an executor" in page


def test_recordings_give_valid_pages(
    recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fifth of the real logs; the source files of their programs are beside
    them."""
    monkeypatch.chdir(recordings)
    logs = every(5, sorted(recordings.rglob("*.log"))[::5])
    assert len(logs) > least(20)
    for log in logs:
        report = report_from([str(log)])
        page = render(report)
        assert Page(page).problems == [], log
        assert len(page) < 2_000_000
        assert len(render_markdown(report)) < 65_536


def test_a_label_is_true_for_every_row_it_counts_and_what_can_be_changed_comes_first() -> (
    None
):
    """One code over several operators says what the code says, not what is said of
    one of them."""
    report = report_from([str(FIXTURES / "logs" / "legacy-2.13-regions.log.xz")])
    context = ReportContext(report)
    rows = outside(report)
    for kind in context.reasons:
        said = {row.reason.text for row in rows if row.reason.code == kind.code}
        assert said == {kind.text} or kind.text == CODES[kind.code].title
        assert kind.count == sum(
            row.count for row in rows if row.reason.code == kind.code
        )
    hopeless = [
        all(
            row.op in context.fixed or not can_change(row.reason.code)
            for row in rows
            if row.reason.code == kind.code
        )
        for kind in context.reasons
    ]
    assert hopeless == sorted(hopeless) and len(set(hopeless)) == 2


def test_a_code_has_one_colour_on_every_page() -> None:
    style = colours()
    turns = re.findall(r"\.(FD2\d\d)\{--h:(\d+)\}", style)
    assert dict(turns).keys() == {code for code in CODES if code.startswith("FD2")}
    assert len({turn for _, turn in turns}) == len(turns)
    for log in LOGS[:2]:
        page = render(report_from([str(log)]))
        assert style in page and not re.search(r'class="swatch r\d"', page)


def test_the_parts_of_a_large_page_have_their_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_DETAILS", 20_000)
    monkeypatch.setattr(pages, "MOST_TEXT", 10_000)
    monkeypatch.setattr(report_program, "MOST_BOXES", 30)
    log = tmp_path / "large.log"
    log.write_text(large_log(groups=25, loose=60))
    page = render(report_from([str(log)]))
    assert Page(page).problems == []
    assert len(page) < 330_000
    assert page.count('<details id="G') == 25  # every group has its row
    assert (
        "The page has no room for more of it" in page
        and "further nodes are left out" in page
    )
    assert page.count('class="node') == 30


@pytest.mark.nightly
def test_a_page_of_2000_groups_and_20000_nodes_stays_below_five_megabytes(
    tmp_path: Path,
) -> None:
    log = tmp_path / "large.log"
    log.write_text(large_log(groups=2_000, loose=10_000))
    assert len(render(report_from([str(log)])).encode()) < 5_000_000


def test_lines_of_torchs_own_formulas_get_no_advice_that_nobody_can_follow():
    """Each operator of a page's programs has the advice on it: loops of gradient
    formulas are torch's."""
    report = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-1.13.1-primitive-layer-norm.log.xz"
    )
    page = fusiondoc.render(report, "html")
    shown = re.findall(
        r'\["FD229","[^"]*gradient formulas",.*?\],\d+,"([^"]*)"', page
    )
    assert shown and all(text.startswith("Nothing") for text in shown)


def test_paths_in_the_ir_of_a_group_are_short():
    report = fusiondoc.parse(
        FIXTURES / "foreign" / "resnet18.trace.eval.nvfuser.log.xz"
    )
    page = fusiondoc.render(replace(report, texts=None), "html")
    assert (
        "torch/nn/functional.py:" in page
        and "site/torch/nn/functional.py:" not in page
    )


def test_a_heading_that_says_there_is_nothing_to_do_has_a_short_link() -> None:
    report = report_from([str(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")])
    page = render(
        replace(
            report,
            plan=(),
            plan_title="No change is known that helps",
            plan_note="Why",
        )
    )
    assert '<a href="#plan">What to do</a>' in page
    assert (
        '<h2 id="plan-title">No change is known that helps</h2>' in page
        and "Do this first" not in page
    )


def test_the_fuser_is_said_once_in_the_header() -> None:
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")]
    )
    assert not any(one.in_header for one in report.findings)

    def said(why: str) -> str:
        page = render(replace(report, fuser=replace(report.fuser, why=why)))
        return page[page.index("</h1>") : page.index("<nav ")]

    assert said("planned on the CPU").count("planned on the CPU") == 1
    asked = replace(report, fuser=replace(report.fuser, requested="auto"))
    report = asked
    assert "this torch has it" in said("auto: this torch has it")
