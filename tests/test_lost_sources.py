"""nvFuser prints views that it puts back without their source: it is that of the
graph before its pass."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

VIEWS = FIXTURES / "logs" / "nvfuser-2.1.2-views.log.xz"
TRAINING = (
    ROOT.parent
    / "shared"
    / "recordings"
    / "torch-2.1.2"
    / "c16_encoder_layer.seed.log"
)

BEFORE = "[DUMP graph_fuser.cpp:2419] "
AFTER = "[DUMP graph_fuser.cpp:2503] "
EXECUTOR = "[DUMP profiling_graph_executor_impl.cpp:676] "


def read(path: Path) -> Report:
    return read_logs(find_logs([str(path)]))[0]


def sources(report: Report) -> set[tuple[str, str | None]]:
    return {(row.op, row.source) for row in report.unfused}


def test_views_have_the_line_of_the_program() -> None:
    lines = lzma.decompress(VIEWS.read_bytes()).decode().split("\n")
    bare = [
        line
        for line in lines
        if "aten::transpose(" in line and line.startswith((AFTER, EXECUTOR))
    ]
    assert bare and not any("#" in line for line in bare)
    report = read(VIEWS)
    place = "examples/why_not/only_views.py:14:11"
    assert sources(report) == {
        (f"aten::{name}", place) for name in ("view", "transpose", "unsqueeze")
    }
    assert [row.count for row in report.unfused] == [1, 1, 1]
    assert {row.op: len(row.evidence) for row in report.unfused}[
        "aten::transpose"
    ] == len(bare)


@pytest.mark.skipif(not TRAINING.is_file(), reason="the recordings are not here")
def test_those_of_a_training_run_stand_in_the_log_with_these_sources() -> None:
    lines = TRAINING.read_text().split("\n")
    given = set()
    for row in read(TRAINING).unfused:
        own = [lines[place.line - 1] for place in row.evidence]
        if row.source is not None and any(
            f"= {row.op}(" in line and "#" not in line for line in own
        ):
            assert any(
                line.startswith(BEFORE)
                and f"= {row.op}(" in line
                and line.endswith(f"# {row.source}")
                for line in lines
            )
            given.add(row.op)
    assert given == {"aten::t", "aten::permute"}


def log(before: list[str], after: list[str], tmp_path: Path) -> Path:
    head, end = "graph(%x.1 : Tensor, %d : int, %e : int):", "  return (%r)"
    text = [
        *(
            BEFORE + line
            for line in (
                "Before Fusion: ",
                head,
                *("  " + one for one in before),
                end,
            )
        ),
        *(
            AFTER + line
            for line in (
                "Before Compilation: ",
                head,
                *("  " + one for one in after),
                end,
            )
        ),
        *(
            EXECUTOR + line
            for line in (
                "Optimized Graph: ",
                head,
                *("  " + one for one in after),
                end,
            )
        ),
    ]
    path = tmp_path / "some.log"
    path.write_text("\n".join(text) + "\n")
    return path


def test_one_view_of_another_is_found_through_it(tmp_path: Path) -> None:
    before = [
        "%p : Tensor = prim::profile[profiled_type=Float(2, 3, device=cuda:0), seen_none=0](%x.1)",
        "%a : Tensor = aten::transpose(%p, %d, %e) # m.py:3:8",
        "%q : Tensor = prim::profile[profiled_type=Float(3, 2, device=cuda:0), seen_none=0](%a)",
        "%r : Tensor = aten::transpose(%q, %d, %e) # m.py:4:8",
    ]
    after = [
        "%11 : Tensor = aten::transpose(%x.1, %d, %e)",
        "%r : Tensor = aten::transpose(%11, %d, %e)",
    ]
    report = read(log(before, after, tmp_path))
    assert sources(report) == {
        ("aten::transpose", "m.py:3:8"),
        ("aten::transpose", "m.py:4:8"),
    }


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            [
                "%a : Tensor = aten::transpose(%x.1, %d, %e) # m.py:3:8",
                "%r : Tensor = aten::transpose(%x.1, %d, %e) # m.py:4:8",
            ],
            id="two equal ones",
        ),
        pytest.param(
            ["%r : Tensor = aten::transpose(%x.1, %e, %d) # m.py:3:8"],
            id="other inputs",
        ),
        pytest.param(
            ["%r : Tensor = aten::t(%x.1) # m.py:3:8"], id="another operator"
        ),
    ],
)
def test_none_is_guessed(before: list[str], tmp_path: Path) -> None:
    report = read(
        log(before, ["%r : Tensor = aten::transpose(%x.1, %d, %e)"], tmp_path)
    )
    assert ("aten::transpose", None) in sources(report)


def test_that_of_another_graph_is_not_taken(tmp_path: Path) -> None:
    """Names of values mean nothing in the next graph."""
    first = log(
        ["%r : Tensor = aten::t(%x.1) # m.py:3:8"],
        ["%r : Tensor = aten::t(%x.1)"],
        tmp_path,
    )
    text = first.read_text()
    head = "graph(%x.1 : Tensor, %y : Tensor):"
    body = (
        "Optimized Graph: ",
        head,
        "  %r : Tensor = aten::t(%x.1)",
        "  return (%r)",
    )
    first.write_text(text + "".join(f"{EXECUTOR}{line}\n" for line in body))
    assert sources(read(first)) == {("aten::t", "m.py:3:8"), ("aten::t", None)}
