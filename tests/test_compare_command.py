"""``fusiondoc compare`` as it is used: sides of every kind, formats, ``--fail-on``,
wrong usage."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT, Run
from log_transforms import slow_down
from raw_log import read
from thorough import every
from valid_json import validate

from fusiondoc.comparison import WORDS
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.report import Instance
from fusiondoc.reports import render_comparison
from fusiondoc.workflows.load import report_from

SCHEMA = json.loads((ROOT / "docs" / "comparison.schema.json").read_text())
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
LAYER_NORM = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
ONE, SPLIT = (
    FIXTURES / "compare" / "one-group.log",
    FIXTURES / "compare" / "split.log",
)
CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"


def as_json(fusiondoc: Run, *args: object) -> dict:
    done = fusiondoc("compare", *args, "--format", "json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    validate(content, SCHEMA)
    return content


@pytest.mark.parametrize("log", every(6, LOGS), ids=lambda p: p.name)
def test_every_log_against_the_next(log: Path, fusiondoc: Run) -> None:
    other = LOGS[(LOGS.index(log) + 1) % len(LOGS)]
    content = as_json(fusiondoc, log, other)
    known = [
        {
            r["id"]
            for r in json.loads(fusiondoc("parse", p, "-f", "json").stdout)[
                "groups"
            ]
        }
        for p in (log, other)
    ]
    for change in content["groups"]:
        for side, ids in zip(("a", "b"), known):
            assert {ref["id"] for ref in change[side]} <= ids
    # Each instance of A is in one place: unchanged, or in one change.
    changed = sum(
        len(change["a"]) * change["count"] for change in content["groups"]
    )
    assert changed + content["groups_same"] == content["a"]["groups"]
    assert as_json(fusiondoc, log, log)["same"] is True


def test_the_schema_has_every_field_and_no_other() -> None:
    import fusiondoc.comparison as differences
    from fusiondoc.model import boundaries, reasons, remedies, report, runs

    modules = (differences, report, runs, reasons, remedies, boundaries)
    for name, definition in SCHEMA["$defs"].items():
        kind = next(
            getattr(module, name) for module in modules if hasattr(module, name)
        )
        in_json = [f.name for f in fields(kind) if f.metadata.get("json", True)]
        assert list(definition["properties"]) == in_json, name
    told = [
        f.name
        for f in fields(differences.Comparison)
        if f.metadata.get("json", True)
    ]
    top = {*told, "same", "coverage_changed"}
    assert set(SCHEMA["properties"]) == set(SCHEMA["required"]) == top


def test_a_saved_report_is_the_log_it_was_made_of(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    shutil.copy(ONE, tmp_path / "logs" / "one.log")
    fusiondoc("parse", ONE, "--output", "one.json")
    with gzip.open(tmp_path / "packed.json.gz", "wb") as file:
        file.write((tmp_path / "one.json").read_bytes())
    told = [
        {**as_json(fusiondoc, a, SPLIT), "a": None}
        for a in (ONE, "one.json", "packed.json.gz", "logs")
    ]
    for one in told:
        # Evidence names the file as it was given.
        assert json.loads(
            re.sub(r'"file": "[^"]*"', '"file": ""', json.dumps(one))
        ) == json.loads(
            re.sub(r'"file": "[^"]*"', '"file": ""', json.dumps(told[0]))
        )
    assert [c["kinds"] for c in told[0]["groups"]] == [["split"]]


@pytest.mark.parametrize("log", every(4, LOGS), ids=lambda p: p.name)
def test_a_saved_report_reads_back_whole(log: Path, fusiondoc: Run) -> None:
    from fusiondoc.reports.json_format import read_report, render

    text = fusiondoc("parse", log, "--format", "json").stdout
    assert render(read_report(text.encode(), "x.json")) == text


def test_captures_by_folder_and_by_name(fusiondoc: Run, tmp_path: Path) -> None:
    for name in ("20260101-000000-old", "20260102-000000-new"):
        shutil.copytree(CAPTURE, tmp_path / ".fusiondoc" / name)
    new = tmp_path / ".fusiondoc" / "20260102-000000-new"
    request = json.loads((new / "request.json").read_text())
    request["options"]["seed"] = 7
    (new / "request.json").write_text(json.dumps(request))
    assert [
        line.split()[0] for line in fusiondoc("captures").stdout.splitlines()[1:]
    ] == [
        "20260102-000000-new",
        "20260101-000000-old",
    ]
    for a, b in (
        ("20260101-000000-old", "20260102-000000-new"),
        ("old", new),
        (CAPTURE, "new"),
    ):
        content = as_json(fusiondoc, a, b)
        assert content["same"] is True
        assert content["differences"] == [
            {"kind": "setting", "name": "seed", "a": None, "b": "7"}
        ]
    done = fusiondoc("compare", "old", "nwe")
    assert done.returncode == 2
    assert "'nwe'" in done.stderr and "Traceback" not in done.stderr
    assert fusiondoc("compare", "20260", "new").returncode == 2
    assert (
        fusiondoc("compare", "old", "new", "--fail-on", "environment").returncode
        == 1
    )
    assert fusiondoc("compare", "old", "new", "--fail-on", "any").returncode == 0


def test_a_log_from_stdin(fusiondoc: Run) -> None:
    done = fusiondoc("compare", "-", SPLIT, "-f", "json", input=ONE.read_text())
    assert [c["kinds"] for c in json.loads(done.stdout)["groups"]] == [["split"]]
    both = fusiondoc("compare", "-", "-")
    assert both.returncode == 2 and "both" in both.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["split"], 1),
        (["merged"], 0),
        (["group-gone"], 0),
        (["group-gone", "split"], 1),
        (["types"], 0),
        (["operators"], 0),
        (["unfused"], 1),
        (["reason"], 0),
        (["fallback"], 0),
        (["slower"], 0),
        (["environment"], 0),
        (["any"], 1),
        (["FD201"], 1),
        (["fd201"], 1),
        (["FD301"], 0),
        (["error"], 0),
        (["note"], 1),
    ],
)
def test_what_fails_on_a_split(fusiondoc: Run, words: list, status: int) -> None:
    options = [part for word in words for part in ("--fail-on", word)]
    done = fusiondoc("compare", ONE, SPLIT, *options)
    assert done.returncode == status, done.stderr
    assert ("failed on: split" in done.stderr) == (status == 1 and "split" in words)
    assert "split" in done.stdout


def test_what_fails_on_a_slow_kernel(fusiondoc: Run, tmp_path: Path) -> None:
    log = read(LAYER_NORM)
    (tmp_path / "a.log").write_bytes(log)
    (tmp_path / "b.log").write_bytes(slow_down(log, b"kernel3", 1.3))
    for options, status in (
        (["--fail-on", "slower"], 1),
        (["--fail-on", "slower", "--slower-than", "25%"], 1),
        (["--fail-on", "slower", "--slower-than", "35"], 0),
        (
            [
                "--fail-on",
                "code",
                "--fail-on",
                "registers",
                "--fail-on",
                "coverage",
            ],
            0,
        ),
        (["--fail-on", "kernel"], 1),
        (["--fail-on", "any"], 1),
    ):
        assert (
            fusiondoc("compare", "a.log", "b.log", *options).returncode == status
        ), options
    assert (
        fusiondoc(
            "compare",
            "b.log",
            "a.log",
            "--fail-on",
            "slower",
            "--fail-on",
            "kernel",
        ).returncode
        == 0
    )


def test_no_word_on_speed_where_a_side_has_none(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = read(LAYER_NORM)
    (tmp_path / "a.log").write_bytes(log)
    (tmp_path / "b.log").write_bytes(
        re.sub(rb"(?m)^kernel\d+ run in .*\n", b"", log)
    )
    content = as_json(fusiondoc, "a.log", "b.log")
    assert content["groups"] == [] and all(
        k["speed"] is None for k in content["kernels"]
    )
    assert any("only A has times" in note for note in content["notes"])


def test_fallbacks_that_came(fusiondoc: Run, tmp_path: Path) -> None:
    log = read(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-compile.log.xz")
    assert log.count(b"FALLBACK path has been taken") >= 1
    clean = re.sub(
        rb"(?m)^(?:.*FALLBACK path has been taken|\[DUMP manager.cpp:251\] ).*\n",
        b"",
        log,
    )
    (tmp_path / "a.log").write_bytes(clean)
    (tmp_path / "b.log").write_bytes(log)
    content = as_json(fusiondoc, "a.log", "b.log")
    assert {f["change"] for f in content["fallbacks"]} == {"came"}
    assert "FD301" in {
        f["finding"]["code"] for f in content["findings"] if f["change"] == "came"
    }
    assert (
        fusiondoc("compare", "a.log", "b.log", "--fail-on", "fallback").returncode
        == 1
    )
    assert (
        fusiondoc("compare", "b.log", "a.log", "--fail-on", "fallback").returncode
        == 0
    )
    assert (
        fusiondoc("compare", "a.log", "b.log", "--fail-on", "error").returncode == 1
    )


def test_code_and_registers(fusiondoc: Run, tmp_path: Path) -> None:
    log = read(LAYER_NORM)
    ptxas = (
        b"ptxas info    : Compiling entry function '_ZN11CudaCodeGen7kernel1E' for 'sm_90'\n"
        b"ptxas info    : Used %d registers, 16 bytes smem\n"
    )
    launch = b"Launch Parameters: BlockDim.x = 256, BlockDim.y = 2"
    assert launch in log
    before = log.replace(launch, ptxas % 40 + launch, 1)
    after = log.replace(launch, ptxas % 64 + launch, 1)
    after = after.replace(
        b"shared_mem_avg + block_size;", b"shared_mem_avg + 2 * block_size;", 1
    )
    (tmp_path / "a.log").write_bytes(before)
    (tmp_path / "b.log").write_bytes(after)
    content = as_json(fusiondoc, "a.log", "b.log")
    assert [
        (k["kinds"], k["lines_gone"], k["lines_added"]) for k in content["kernels"]
    ] == [(["code", "registers"], 1, 1)]
    assert (
        content["kernels"][0]["a"]["registers"],
        content["kernels"][0]["b"]["registers"],
    ) == (40, 64)
    assert content["groups"] == []
    assert (
        fusiondoc("compare", "a.log", "b.log", "--fail-on", "registers").returncode
        == 1
    )
    assert (
        fusiondoc("compare", "b.log", "a.log", "--fail-on", "registers").returncode
        == 0
    )
    assert (
        fusiondoc("compare", "b.log", "a.log", "--fail-on", "code").returncode == 1
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--fail-on", "slowr"], "Did you mean 'slower'"),
        (["--fail-on", "FD999"], "Did you mean"),
        (["--fail-on", "xyzzy"], "group-gone"),
        (["--slower-than", "much"], "--slower-than 10%"),
        (["--slower-than", "-5"], "percentage"),
        (["--slower-than", "nan"], "percentage"),
        (["--slower-than", "inf%"], "percentage"),
        (["--format", "pdf"], "pdf"),
        (["--output", "no/such/folder/x.json"], "Choose another"),
    ],
)
def test_wrong_options(fusiondoc: Run, args: list, words: str) -> None:
    done = fusiondoc("compare", ONE, SPLIT, *args)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def report_text(fusiondoc: Run) -> str:
    return fusiondoc("parse", ONE, "--format", "json").stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda text: text.replace("fusiondoc.report/1", "fusiondoc.report/2"),
            "newer fusiondoc",
        ),
        (
            lambda text: text.replace("fusiondoc.report/1", "fusiondoc.captures/1"),
            "not a report",
        ),
        (lambda text: text[:-200], "not a complete JSON file"),
        (lambda text: '{"a": 1}', "no report of fusiondoc"),
        (lambda text: "[]", "no report of fusiondoc"),
        (lambda text: "", "not a complete JSON file"),
        (lambda text: '{"schema": "fusiondoc.report/1"}', "environment is missing"),
        (
            lambda text: text.replace('"runs": null', '"runs": "many"', 1),
            "groups[0].runs is not a whole number",
        ),
        (
            lambda text: text.replace('"op": "aten::mul"', '"op": 3', 1),
            "groups[0].nodes[1].op is not a string",
        ),
        (
            lambda text: text.replace('"severity": "note"', '"severity": "bad"', 1),
            "severity is none of",
        ),
    ],
)
def test_a_report_that_is_none(
    fusiondoc: Run, tmp_path: Path, change: object, words: str
) -> None:
    assert callable(change)
    text = report_text(fusiondoc)
    assert change(text) != text
    (tmp_path / "x.json").write_text(change(text))
    done = fusiondoc("compare", "x.json", SPLIT)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 2 and "next:" in done.stderr


def test_a_report_of_a_later_version_with_more_keys(
    fusiondoc: Run, tmp_path: Path
) -> None:
    content = json.loads(report_text(fusiondoc))
    content["more"] = {"new": 1}
    content["groups"][0]["colour"] = "red"
    for optional in ("speed", "tries", "peak"):
        del content[optional]
    # Keys in another order, as other tools write them.
    (tmp_path / "x.json").write_text(json.dumps(content, sort_keys=True))
    told = as_json(fusiondoc, "x.json", ONE)
    assert told["same"] is True
    assert told["a"]["name"] == f"x.json ({ONE})" and told["b"]["name"] == str(ONE)


def test_a_report_in_the_place_of_a_comparison(
    fusiondoc: Run, tmp_path: Path
) -> None:
    fusiondoc("compare", ONE, SPLIT, "--output", "c.json")
    done = fusiondoc("compare", "c.json", SPLIT)
    assert done.returncode == 2 and "fusiondoc.comparison/1" in done.stderr


def test_text_at_every_width(fusiondoc: Run) -> None:
    for width in (40, 80, 120):
        done = fusiondoc("compare", LAYER_NORM, SPLIT, env={"COLUMNS": str(width)})
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= width
        assert "\x1b" not in done.stdout
    ascii_only = fusiondoc("compare", ONE, SPLIT, env={"PYTHONIOENCODING": "ascii"})
    assert (
        ascii_only.stdout.isascii()
        and "G1 of A is now G1 and G2 of B" in ascii_only.stdout
    )


def test_markdown_escapes_what_a_log_holds(fusiondoc: Run, tmp_path: Path) -> None:
    bad = SPLIT.read_text().replace("m.py:5:8", "<script>@me*`x`|.py:5:8")
    (tmp_path / "b.log").write_text(bad)
    done = fusiondoc("compare", ONE, "b.log", "--output", "c.md")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "c.md").read_text()
    assert text.startswith("### fusiondoc: 1 group") and "**split**" in text
    assert "script" in text and "<script" not in text and "@me" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {4}


class Page(HTMLParser):
    """Tags, and the text in cells."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list = []
        self.tags: set = set()
        self.links: list = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.links += [
            value
            for name, value in attrs
            if name in ("src", "href", "style", "onclick")
        ]
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_whole_and_escapes_what_a_log_holds(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "b.log").write_text(
        SPLIT.read_text().replace("m.py:5:8", "<script>alert(1)</script>.py:5:8")
    )
    done = fusiondoc("compare", ONE, "b.log", "--output", "c.html")
    assert done.returncode == 0, done.stderr
    page = Page()
    page.feed((tmp_path / "c.html").read_text())
    assert (
        page.open == []
        and all(link.startswith("#") for link in page.links)
        and "script" not in page.tags
    )
    for words in (
        "G1 of A is now G1 and G2 of B",
        "B G2: ",
        "aten::cumsum",
        "<script>alert(1)</script>.py:5",
        "FD201",
        "split",
    ):
        assert words in page.text
    same = fusiondoc("compare", ONE, ONE, "--format", "html").stdout
    assert "nothing changed" in same and "<h2>Groups" not in same
    for log in (LAYER_NORM, FIXTURES / "captures" / "nvfuser-2.1.2-composite"):
        page = Page()
        page.feed(fusiondoc("compare", ONE, log, "--format", "html").stdout)
        assert page.open == []


def test_every_word_is_in_the_help_and_on_the_page(fusiondoc: Run) -> None:
    shown = fusiondoc("compare", "--help").stdout
    page = (ROOT / "docs" / "commands" / "compare.md").read_text(encoding="utf-8")
    for word in WORDS:
        assert re.search(rf"(?<![\w-]){word}(?![\w-])", shown), word
        assert f"| `{word}` |" in page, word
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, flags=re.M)) == {
        *WORDS,
        "error",
        "warning",
        "note",
    }


def test_the_page_has_a_picture_of_either_side_with_the_changed_groups_marked() -> (
    None
):
    logs = FIXTURES / "logs"
    b = report_from([str(logs / "nnc-2.13-split-helper.log.xz")])
    whole = replace(b.groups[0], nodes=b.groups[0].nodes + b.groups[1].nodes)
    page = render_comparison(
        compare(replace(b, groups=(whole,), unfused=()), b), "html"
    )
    assert page.count("<svg") >= 2 and "prefers-color-scheme: dark" in page
    assert (
        page.count('class="node group changed"') == 3
    )  # one of A, the two that it became in B
    assert 'class="node operator out hue FD211"' in page and "<script" not in page


def test_the_page_marks_the_instances_that_changed() -> None:
    """Of a group in three layers the one that is gone from B, where layers tell
    which."""
    b = report_from([str(FIXTURES / "logs" / "nnc-2.13-split-helper.log.xz")])
    group = replace(b.groups[0], instances=(Instance("layer.0", (), None),))
    three = replace(
        group,
        instances=tuple(Instance(f"layer.{nth}", (), None) for nth in range(3)),
    )
    (program,) = [
        one
        for one in b.programs
        if any(node.group == group.id for node in one.nodes)
    ]
    node = next(node for node in program.nodes if node.group == group.id)
    before = replace(program, nodes=(node, node, node), edges=())
    a = replace(b, groups=(three,), programs=(before,), unfused=())
    after = replace(
        b,
        groups=(group,),
        programs=(replace(program, nodes=(node,), edges=()),),
        unfused=(),
    )
    page = render_comparison(compare(a, after), "html")
    assert page.count('class="node group"') == 1 + 1  # layer.0 on either side
    assert page.count('class="node group changed"') == 2
