"""What a user sees of torch.compile runs: recordings of real runs, on a terminal,
in a comment, on a page."""

from __future__ import annotations

import lzma
import re
from functools import cache
from pathlib import Path

import pytest
from command_line import Run
from conftest import FIXTURES
from inductor_recordings import RECORDINGS

import fusiondoc
from fusiondoc.model.code_kinds import Family
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Report
from fusiondoc.reports.json_format import read_report

NAMES = [recording.name for recording in RECORDINGS]


@cache
def report_of(name: str) -> Report:
    release, _, program = name.partition("-")
    return fusiondoc.parse(FIXTURES / "inductor" / release / program)


def terminal(name: str) -> str:
    return fusiondoc.render(report_of(name), "text")


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_of_every_graph_is_accounted_for(name: str) -> None:
    report = report_of(name)
    assert report.compiled is not None and report.compiled.graphs
    for graph in report.compiled.graphs:
        assert graph.accounts is not None and graph.accounts.not_found == ()
    unknown = [row.op for row in report.unfused if row.reason.code == "FD299"]
    assert unknown == (
        ["call"] if name == "2.11-user_triton" else []
    )  # that log has no generated code


@pytest.mark.parametrize("name", NAMES)
def test_a_screen_is_80_columns_and_starts_with_the_verdict(name: str) -> None:
    text = terminal(name)
    assert max(map(len, text.splitlines())) <= 80
    assert "\nFused " in text[:600] and "inductor" in text[:400].lower()
    assert "no log" not in text and "executor" not in text


@pytest.mark.parametrize("name", NAMES)
def test_boundaries_are_listed_on_a_terminal_at_most_five(name: str) -> None:
    text = terminal(name)
    section = text.partition("\nBoundaries")[2].partition("\nCompiled graphs")[0]
    listed = re.findall(
        r"^ +[\d.]+ [KMG]?B .+ → |^ unknown size .+ → ", section, re.MULTILINE
    )
    assert len(listed) <= 5
    assert bool(report_of(name).boundaries) == bool(section)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_and_the_comment_have_all_boundaries(name: str) -> None:
    report = report_of(name)
    page, comment = (
        fusiondoc.render(report, "html"),
        fusiondoc.render(report, "markdown"),
    )
    for code in {
        one.cause.code for one in report.boundaries if one.cause is not None
    }:
        assert code in page and code in comment
    assert (
        ("Boundaries" in page)
        == ("Boundaries" in comment)
        == bool(report.boundaries)
    )


@pytest.mark.parametrize("name", ["2.13-norm", "2.11-composite"])
def test_edges_of_the_picture_carry_the_cause(name: str) -> None:
    """Each pair of boxes between which a tensor goes that has a boundary, and no
    other."""
    report = report_of(name)
    known = {
        (one.producer.group, one.producer.row, one.consumer.group, one.consumer.row)
        for one in report.boundaries
        if one.kind == "written and read" and one.cause is not None
    }
    page = fusiondoc.render(report, "html")
    for program in report.programs:
        picture = page[page.index(f'id="picture-{program.id}"') :].partition(
            "</svg>"
        )[0]
        titles = re.findall(
            r'<path class="apart"[^>]*><title>(FD2\d\d)[^<]+</title>', picture
        )
        ends = [
            (first.group, first.row, second.group, second.row)
            for first, second in (
                (program.nodes[a], program.nodes[b]) for a, b in program.edges
            )
        ]
        assert len(titles) == sum(pair in known for pair in ends)
    assert 'class="apart"' in page
    assert "Time line" not in page and "went to profiling" not in page


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_report_is_the_same(name: str) -> None:
    report = report_of(name)
    saved = read_report(fusiondoc.render(report, "json").encode(), "report.json")
    assert (
        saved.boundaries == report.boundaries and saved.compiled == report.compiled
    )
    assert saved.groups == report.groups


def test_a_graph_break_is_the_first_thing_to_do() -> None:
    text = terminal("2.11-graph_break_small")
    assert (
        "Do this first" in text
        and "Graph break in" in text
        and "GB0059" in text.upper()
    )
    assert "report an issue" not in text.lower()
    report = report_of("2.11-graph_break_small")
    (found,) = [one for one in report.findings if one.code == "FD121"]
    assert found.source is not None and found.source.rpartition(":")[2].isdigit()
    assert report.plan[0].codes == ("FD121",)


def test_a_recompile_names_its_guard_and_what_to_do() -> None:
    (found,) = [
        one
        for one in report_of("2.11-dynamic_small").findings
        if one.code == "FD122"
    ]
    assert "size mismatch at index 0" in found.message
    assert found.advice is not None and "mark_dynamic" in found.advice


def test_calls_are_outside_with_their_kind() -> None:
    codes = {row.op: row.reason.code for row in report_of("2.13-fallback").unfused}
    assert codes == {
        "aten::_fft_r2c": "FD252",
        "aten::abs": "FD252",
        "aten::linalg_qr": "FD252",
    }
    assert {
        row.op: row.reason.code for row in report_of("2.13-custom").unfused
    } == {"lab::twice": "FD254"}
    assert all(row.reason.stated for row in report_of("2.13-fallback").unfused)


def test_eager_sums_of_a_mixed_order_reduction_are_in_the_report() -> None:
    rows = {row.op: row for row in report_of("2.11-composite").unfused}
    assert rows["aten::sum"].reason.code == "FD258" and rows["aten::sum"].count == 2
    assert "InductorMixedOrder" in {
        group.kind for group in report_of("2.11-composite").groups
    }


def test_nothing_is_advised_against_torchs_own_gradient_formulas() -> None:
    backward = [
        one for one in report_of("2.11-composite").findings if one.code == "FD262"
    ]
    assert backward and all(
        one.nothing_to_do and one.severity == "note" for one in backward
    )


def test_boundary_findings_have_their_bytes_in_the_title() -> None:
    """And one finding a cause, line and remedy."""
    for name in NAMES:
        seen = set()
        for one in report_of(name).findings:
            if "FD261" <= one.code <= "FD279":
                assert CODES[one.code].family is Family.NODE
                assert (one.code, one.source, one.remedy) not in seen
                seen.add((one.code, one.source, one.remedy))
                if one.saves_bytes:
                    assert re.match(r"[\d,.]+ [KMG]B ", one.message)


def test_what_goes_through_memory_is_on_the_first_screen() -> None:
    text = terminal("2.11-composite").partition("\nGroups\n")[0]
    assert "88.4 MB go through memory between kernels and calls" in " ".join(
        text.split()
    )
    assert "Nothing to do" not in text and re.search(
        r"^Boundaries +7 tensors", text, re.MULTILINE
    )


def test_a_log_of_fusion_lines_alone_says_once_that_it_has_no_code(
    tmp_path: Path,
) -> None:
    recorded = lzma.decompress(
        (FIXTURES / "inductor" / "2.13" / "norm" / "log.xz").read_bytes()
    )
    log = tmp_path / "fusion.log"
    log.write_bytes(
        b"".join(
            line for line in recorded.splitlines(True) if b"[__fusion]" in line
        )
    )
    report = fusiondoc.parse(log)
    assert {row.op for row in report.unfused} == {
        "call"
    } and report.fusion_groups == 6
    found = [one for one in report.findings if one.code in ("FD923", "FD299")]
    assert [one.code for one in found] == ["FD923"] and "output_code" in (
        found[0].advice or ""
    )
    assert report.plan_title == "No change can be named" or report.plan


def test_loops_that_only_serve_a_call_have_a_name_and_unknown_operators_are_no_zero(
    tmp_path: Path,
) -> None:
    """A convolution's input is copied into the layout that the library takes. In
    the log of C++ code alone nothing names the operators of a kernel."""
    text = terminal("2.13-conv")
    assert (
        ", prepares a tensor for a call, kernels K1" in text
        and "0 operators" not in text
    )
    page = fusiondoc.render(report_of("2.13-conv"), "html")
    assert '<span class="ops">prepares a tensor for a call</span>' in page
    log = lzma.decompress(
        (FIXTURES / "inductor" / "2.13" / "norm" / "log.xz").read_bytes()
    )
    code = [
        line for line in log.splitlines(keepends=True) if b"[__output_code]" in line
    ]
    (tmp_path / "code.log").write_bytes(b"".join(code))
    bare = fusiondoc.render(fusiondoc.parse(tmp_path / "code.log"), "text")
    assert (
        "\nFused   operators that the log does not show in 4 groups, 3 not fused"
        in bare
    )
    assert bare.count("operators unknown") == 2 and "0 operators" not in bare


def test_a_function_is_described_by_each_of_its_loops(fusiondoc: Run) -> None:
    """A C++ function holds the loops of several groups, which are not the same
    graph."""
    report = report_of("2.13-norm")
    done = fusiondoc("kernels", FIXTURES / "inductor" / "2.13" / "norm")
    several = [kernel for kernel in report.kernels if len(kernel.groups) > 1]
    assert several
    for kernel in several:
        part = done.stdout.partition(f"\n{kernel.id} {kernel.name}\n")[2].partition(
            "\n\n"
        )[0]
        named = [
            line.split(",")[0].strip()
            for line in part.splitlines()
            if " backward: " in line
        ]
        assert named == [*kernel.groups] and "the same graph" not in part
