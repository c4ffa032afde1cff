"""Logs as other tools leave them are read like the clean log: stamps, tags,
colours, broken lines and encodings, each alone and several in the orders that occur
(``logs_of_others.py``). The oracle is the report of the clean log, as JSON; the
lines of evidence are compared through the rows that they stand in."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from logs_of_others import (
    BY_NAME,
    DECORATIONS,
    Decoration,
    Order,
    Where,
    around_each_row,
    decorated,
    sampled_orders,
)
from thorough import THOROUGH, every, examples

from fusiondoc.api import parse
from fusiondoc.reports.json_format import as_dict

FIXTURES = Path(__file__).parents[1] / "fixtures"

LOGS = (
    "compare/before",
    "ir/nvfuser-2.1.2-rejects",
    "foreign/shapes.script.train.nvfuser",
    "foreign/lstm_cells.trace.eval.nvfuser",
    "logs/nnc-2.11-add-relu",
    "logs/nnc-2.13-in-place",
)
OF_DUMPS = tuple(
    f"dumps/nvfuser-2.1.2-segmented.{option}"
    for option in (
        "kernel_args",
        "sync_map",
        "bank_conflict",
        "kernel_ir",
        "ptxas_verbose",
    )
)
"""They have no line of the JIT log. In the text of a dump an empty line may stand
for the rest of a row."""

OF_RANKS = ("rank", "ranks")


def facts(log: Path, lines: list[int], order: Order = ()) -> Any:
    """The report without paths and sizes, its evidence as lines of the clean
    log."""
    ranked = any(one.ranked for one in order)

    def compared(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"file", "line"}:
                return lines[value["line"] - 1]
            if value.keys() >= {"option", "text", "evidence"}:  # a dump
                value["text"] = re.sub("\n+", "\n", value["text"])
            return {
                key: compared(one)
                for key, one in value.items()
                if not (ranked and key in OF_RANKS)
            }
        return (
            [compared(one) for one in value] if isinstance(value, list) else value
        )

    report = json.loads(json.dumps(as_dict(parse(log)), default=list))
    report["parse"] = [
        report["parse"][key] for key in ("truncated", "unrecognised")
    ]
    return compared(report)


class Clean:
    """A log and what it holds."""

    def __init__(self, text: bytes, path: Path) -> None:
        self.text = text.rstrip(b"\n") + b"\n"
        self.path = path
        path.write_bytes(self.text)
        self._lines = list(range(1, self.text.count(b"\n") + 1))
        self._wanted = {ranked: self._facts(ranked) for ranked in (False, True)}

    def _facts(self, ranked: bool) -> Any:
        return facts(
            self.path,
            self._lines,
            tuple(one for one in DECORATIONS if one.ranked) if ranked else (),
        )

    def reads_alike(self, order: Order) -> bool:
        text, lines = decorated(self.text, order)
        self.path.write_bytes(text)
        return bool(
            facts(self.path, lines, order)
            == self._wanted[any(one.ranked for one in order)]
        )


def fixture(name: str) -> bytes:
    folder = FIXTURES / name
    path = folder / "log.xz" if folder.is_dir() else FIXTURES / f"{name}.log.xz"
    return lzma.decompress(path.read_bytes())


def alike(log: Clean, orders: Iterable[Order]) -> list[list[str]]:
    """Names of those that are not read like the clean log."""
    return [
        [one.name for one in order]
        for order in orders
        if not log.reads_alike(order)
    ]


@pytest.mark.parametrize("name", (*LOGS, *OF_DUMPS))
def test_a_decorated_log_is_read_like_the_clean_one(
    name: str, tmp_path: Path
) -> None:
    """In a dump alone nothing tells a row that lost its last blank from a line of
    that length.

    At a push a log has a third of the decorations, the next one the next third.
    """
    orders = [
        (one,)
        for one in DECORATIONS
        if name not in OF_DUMPS or "without blanks" not in one.name
    ]
    orders = list(
        every(3, orders[0 if THOROUGH else (*LOGS, *OF_DUMPS).index(name) % 3 :])
    )
    if name.startswith("foreign/"):  # the long ones
        orders = list(every(2, orders))
    assert alike(Clean(fixture(name), tmp_path / "run.log"), orders) == []


@pytest.mark.parametrize("name", ("compare/before", "logs/nnc-2.11-add-relu"))
def test_decorations_around_decorations(name: str, tmp_path: Path) -> None:
    """Blanks that a terminal left out at the end of a container's empty lines are
    lost."""
    orders = every(5, sampled_orders(2, examples(800), 1))
    lost = ({"80 columns without blanks", "containerd"},)
    wanted = [order for order in orders if {one.name for one in order} not in lost]
    assert alike(Clean(fixture(name), tmp_path / "run.log"), wanted) == []


@pytest.mark.parametrize(
    ("name", "around"),
    [
        # one row of torch alone is as long as the terminal is wide, behind a time
        ("logs/nvfuser-2.1.2-beside-nnc", ("jenkins", "200 columns")),
        # the only full rows are heads of kernels and of statements; or no line of
        # torch stands in the log
        ("dumps/nvfuser-2.1.2-segmented.figures", ("containerd", "120 bytes")),
        (
            "dumps/nvfuser-2.1.2-segmented.parallel_dimensions",
            ("logging", "docker's objects"),
        ),
        ("dumps/nvfuser-2.1.2-segmented.halo", ("120 columns", "docker's objects")),
        # statements that end where a row ends
        ("dumps/nvfuser-2.1.2-segmented.fusion_ir", ("120 columns",)),
        ("dumps/nvfuser-2.1.2-segmented.ca_map", ("80 columns",)),
        # a joined row stands in the middle of a dump
        ("dumps/nvfuser-2.1.2-segmented.fusion_args", ("80 columns",)),
        ("dumps/nvfuser-2.1.2-segmented.perf_debug_verbose", ("80 columns",)),
        # rows that are cut within colours, and no line of torch's log
        ("dumps/nvfuser-2.1.2-segmented.fusion_ir", ("buildkite", "80 bytes")),
    ],
)
def test_few_rows_show_how_a_log_is_broken(
    name: str, around: tuple[str, ...], tmp_path: Path
) -> None:
    order = tuple(BY_NAME[one] for one in around)
    assert Clean(fixture(name), tmp_path / "run.log").reads_alike(order)


@pytest.mark.parametrize(
    ("name", "around"),
    [
        ("inductor/2.13/fallback", ("80 bytes",)),
        ("inductor/2.13/cat_split", ("120 columns",)),
        ("inductor/2.13/inplace", ("containerd",)),
        ("inductor/2.13/branch", ("logging with times", "200 bytes")),
        ("inductor/2.11/foreach_small", ("docker's objects, cut",)),
        ("inductor/2.11/argmaxes", ("200 bytes", "reset")),
        ("inductor/2.11/cast_transpose", ("kubectl", "200 columns")),
    ],
)
def test_broken_rows_of_torch_compile(
    name: str, around: tuple[str, ...], tmp_path: Path
) -> None:
    """Lines of code, of graphs and of IR keep their lines of the log, too."""
    order = tuple(BY_NAME[one] for one in around)
    assert Clean(fixture(name), tmp_path / "run.log").reads_alike(order)


@pytest.mark.parametrize("blanks", [b"    ", b"\t"])
def test_a_log_of_torch_compile_copied_into_a_block_of_a_text(
    blanks: bytes, tmp_path: Path
) -> None:
    log = Clean(fixture("inductor/2.13/cat_split"), tmp_path / "run.log")
    indented = Decoration("indented", Where.FILE, around_each_row(blanks, b""))
    assert log.reads_alike((indented,))


_PLAN = re.compile(
    rb"^(\[DUMP \S+\] )(?:Before Compilation|After TExprFuser): \n((?:\1.*\n)+)",
    re.MULTILINE,
)
_FAILURE = b"""\
Run python -m pytest test/test_jit_fuser.py
============================= test session starts ==============================
collected 1 item

=================================== FAILURES ===================================
__________________________________ test_fused __________________________________
Traceback (most recent call last):
  File "test/test_jit_fuser.py", line 120, in test_fused
    self.assertGraphContainsExactly(scripted.graph_for(x), FUSION_GROUP, 2)
  File "site-packages/torch/testing/_internal/jit_utils.py", line 318, in perform_assert
    raise AssertionError(
AssertionError: %s
Error: graph contains 1 fusion nodes (including subgraphs) but expected 2
=========================== short test summary info ============================
FAILED test/test_jit_fuser.py::test_fused - AssertionError: %s
============================== 1 failed in 3.41s ===============================
"""
"""What pytest and torch print where a graph is not as a test of torch wants it
(``perform_assert``, torch/testing/_internal/jit_utils.py; such a log of GitHub
Actions is in pytorch/pytorch#75029)."""


@pytest.mark.parametrize("name", ("compare/before", "logs/nnc-2.11-add-relu"))
def test_a_graph_in_the_message_of_an_assertion(name: str, tmp_path: Path) -> None:
    """Its begin stands behind the name of the error, and no line is of torch's
    log."""
    prefix, plan = _PLAN.findall(fixture(name))[-1]
    graph = plan.replace(prefix, b"").rstrip(b"\n")
    log = Clean(_FAILURE % (graph, graph.partition(b"\n")[0]), tmp_path / "run.log")
    report = as_dict(parse(log.path))
    with_groups = re.findall(
        rb"^with prim::(?:CudaFusion|TensorExpr)Group_\d = ", graph, re.MULTILINE
    )
    assert len(report["groups"]) == len(with_groups) == 1
    assert report["parse"]["truncated"] == 0
    assert alike(log, [(one,) for one in DECORATIONS]) == []


@pytest.mark.nightly
def test_three_decorations(tmp_path: Path) -> None:
    """Where rows of one width are broken at another behind colours or a prefix,
    some are not told apart."""
    orders = sampled_orders(3, 300, 3)
    assert (
        len(
            alike(
                Clean(fixture("logs/nnc-2.11-add-relu"), tmp_path / "run.log"),
                orders,
            )
        )
        <= 5
    )
