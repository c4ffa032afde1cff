"""``repro`` on every group of the real logs: the graph is found again, and torch's
own parser takes what is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FIXTURES
from thorough import THOROUGH, every

from fusiondoc.model.report import Group
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.repro.rebuild import find_group, rebuild
from fusiondoc.repro.write import ir_text, script

torch = pytest.importorskip("torch")


def groups(folder: Path) -> Iterator[tuple[LogInput, Group]]:
    logs = sorted([*folder.rglob("*.log"), *folder.rglob("*.log.xz")])
    for path in every(6, logs):
        log = LogInput(str(path), path)
        found = read_logs([log])[0].groups
        for group in (
            found if THOROUGH or len(found) < 4 else (*found[:2], found[-1])
        ):
            yield log, group


def operators(graph: object) -> list:
    """Kinds of a graph's nodes, without those that a file adds or a fusion group
    does not count."""
    skipped = (
        "prim::Constant",
        "prim::ListConstruct",
        "prim::TupleConstruct",
        "prim::AutogradAllNonZero",
    )
    return [node.kind() for node in graph.nodes() if node.kind() not in skipped]  # type: ignore[attr-defined]


def check(folder: Path, at_least: int) -> None:
    """Groups (three of each sixth log, or all: thorough.py) are found, and 95 % of
    them are taken by parse_ir with the operators that the report has."""
    total, refused = 0, []
    for log, group in groups(folder):
        total += 1
        found = find_group(group, [log])
        assert found is not None, (log.name, group.id)
        recipe = rebuild(found)
        try:
            graph = torch._C.parse_ir(ir_text(recipe))
        except RuntimeError as error:
            refused.append((log.name, group.id, str(error)[:200]))
            continue
        wanted = [
            op.replace("_copy", "").replace("prim::", "aten::") for op in group.ops
        ]
        assert operators(graph) == wanted, (log.name, group.id, recipe.problems)
        tensors = [value.type().str() for value in graph.inputs()]
        # Weights of a frozen module are printed as <Tensor>: their values are not
        # in the log.
        weights = found.text.count("prim::Constant[value=<Tensor>]")
        assert len(tensors) == len(group.inputs) + weights, (log.name, group.id)
        ast.parse(
            script(recipe, "title", "file.py", (), found.text),
            feature_version=(3, 7),
        )
    assert total >= (at_least if THOROUGH else at_least // 30)
    assert len(refused) <= max(0.05 * total, 1), refused


def test_the_groups_of_the_fixtures() -> None:
    check(FIXTURES, 60)


def test_the_groups_of_all_recordings(recordings: Path) -> None:
    check(recordings, 350)


def test_a_body_is_the_raw_text_of_the_log() -> None:
    """The print in the file, held against a plain search of the log."""
    import lzma

    path = FIXTURES / "logs" / "nvfuser-2.1.2-fallback-compile.log.xz"
    raw = lzma.decompress(path.read_bytes()).decode().split("\n")
    log = LogInput(str(path), path)
    for group in read_logs([log])[0].groups:
        found = find_group(group, [log])
        assert found is not None
        assert "with prim::CudaFusionGroup_" in raw[found.line - 1]
        lines = [line.partition("] ")[2] for line in raw[found.line - 1 :]]
        end = next(
            i for i, line in enumerate(lines) if line.startswith("  return (")
        )
        assert ("\n".join(lines[: end + 1])).endswith(found.text)
