"""Every graph of real logs, read by us and by torch's own parser: node for node the
same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import ir_extract  # noqa: E402
from conftest import FIXTURES  # noqa: E402
from ir_torch import Parsed, Refused, cause, differences  # noqa: E402

from fusiondoc.parsers.ir import Graph  # noqa: E402
from fusiondoc.parsers.ir.parse import parse_dump, parse_node  # noqa: E402

NODE_LINE = re.compile(r"^ +(?:%.*)?= \^?\w+.*\(.*\)", re.MULTILINE)


class Outcome:
    """What became of a set of distinct graphs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.rewritten: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.wrong: list[str] = []

    @property
    def accepted(self) -> float:
        whole = (
            self.counts["read as printed"] + self.counts["read after normalisation"]
        )
        return whole / max(self.counts["distinct"], 1)

    def __str__(self) -> str:
        lines = [f"{count:6} {what}" for what, count in self.counts.items()]
        lines += [
            f"{count:6} with rewriting of {why}"
            for why, count in self.rewritten.most_common()
        ]
        lines += [
            f"{count:6} refused: {why}"
            for why, count in self.refusals.most_common()
        ]
        return "\n".join(
            [f"torch accepts {self.accepted:.1%}", *lines, *self.wrong[:10]]
        )


def compare(graphs: dict[bytes, str]) -> Outcome:
    outcome = Outcome()
    for text, origin in graphs.items():
        outcome.counts["distinct"] += 1
        dump = parse_dump(text.rstrip(b"\n").split(b"\n"))
        nodes = sum(1 for _ in dump.graph.walk())
        outcome.counts["nodes"] += nodes
        # Without torch: whole, nothing set aside, and as many nodes as there are
        # lines that look like one.
        if (
            not dump.graph.complete
            or dump.foreign
            or nodes != len(NODE_LINE.findall(text.decode()))
        ):
            outcome.wrong.append(f"{origin}: {dump.problems}, {nodes} nodes")
        settle(outcome, text.decode(), dump.graph, origin)
    return outcome


def settle(outcome: Outcome, text: str, ours: Graph, origin: str) -> None:
    try:
        parsed = Parsed(text)
    except Refused as refusal:
        outcome.refusals[cause(str(refusal))] += 1
        return
    outcome.counts[
        "read as printed" if parsed.as_printed else "read after normalisation"
    ] += 1
    outcome.rewritten.update(parsed.rewritten)
    outcome.wrong += [f"{origin}: {what}" for what in differences(parsed, ours)]


def compare_single(nodes: dict[bytes, str]) -> Outcome:
    """Nodes printed by themselves: torch reads one in a graph that takes what the
    node takes."""
    outcome = Outcome()
    for text, origin in nodes.items():
        outcome.counts["distinct"] += 1
        node = parse_node(text)
        if node is None:
            outcome.wrong.append(f"{origin}: no node: {text[:100]!r}")
            continue
        params = [f"%{name} : Tensor" for name in dict.fromkeys(node.inputs)]
        whole = (
            f"graph({', '.join(params)}):\n  {text.decode().strip()}\n  return ()\n"
        )
        if text.startswith(b" ="):
            whole = whole.replace("\n  =", "\n   =")
        dump = parse_dump(whole.rstrip("\n").encode().split(b"\n"))
        again = dump.graph.nodes[0]
        if (again.outputs, again.attributes, again.source) != (
            node.outputs,
            node.attributes,
            node.source,
        ):
            outcome.wrong.append(
                f"{origin}: read differently inside a graph: {text[:100]!r}"
            )
        # The types of what it takes are not in the print, so no schema can be asked
        # for.
        settle(
            outcome,
            whole.replace("= aten::", "= unregistered_aten::", 1),
            dump.graph,
            origin,
        )
    return outcome


def test_fixture_graphs() -> None:
    outcome = compare(ir_extract.distinct(FIXTURES / "ir"))
    print(f"\n{outcome}")
    assert outcome.counts["distinct"] > 150
    assert outcome.accepted == 1, str(outcome)
    assert outcome.wrong == [], str(outcome)


@pytest.mark.nightly
def test_all_recorded_graphs(recordings: Path) -> None:
    outcome = compare(ir_extract.distinct(recordings))
    print(f"\n{outcome}")
    assert outcome.counts["distinct"] >= 819, str(outcome)
    assert outcome.accepted >= 0.9, str(outcome)
    assert outcome.wrong == [], str(outcome)


def test_fixture_nodes() -> None:
    outcome = compare_single(
        ir_extract.distinct(FIXTURES / "ir", ir_extract.single_nodes)
    )
    print(f"\n{outcome}")
    assert outcome.counts["distinct"] > 100
    assert outcome.accepted >= 0.9, str(outcome)
    assert outcome.wrong == [], str(outcome)


@pytest.mark.nightly
def test_all_recorded_nodes(recordings: Path) -> None:
    outcome = compare_single(
        ir_extract.distinct(recordings, ir_extract.single_nodes)
    )
    print(f"\n{outcome}")
    assert outcome.counts["distinct"] > 500
    assert outcome.accepted >= 0.9, str(outcome)
    assert outcome.wrong == [], str(outcome)


@pytest.mark.parametrize(
    "where", ["fixtures", pytest.param("recordings", marks=pytest.mark.nightly)]
)
def test_every_section_finds_its_node(
    where: str, request: pytest.FixtureRequest
) -> None:
    folder = (
        FIXTURES / "ir"
        if where == "fixtures"
        else request.getfixturevalue("recordings")
    )
    sections = repeated = 0
    for text, origin in ir_extract.distinct(folder, ir_extract.dumps).items():
        dump = parse_dump(text.rstrip(b"\n").split(b"\n"))
        assert dump.complete, (origin, dump.problems)
        names = re.findall(rb"(?m)^with (\S+) = ", text)
        assert [section.name.encode() for section in dump.sections] == names
        repeated += len(names) - len(set(names))
        for section in dump.sections:
            sections += 1
            assert section.node is not None, origin
            # A body takes as many values as its node gives it, and gives back as
            # many as the node has.
            assert len(section.graph.params) == len(section.node.inputs), (
                origin,
                section,
            )
            # That of a DifferentiableGraph also gives what its backward needs.
            more = len(section.graph.outputs) - len(section.node.outputs)
            assert more == 0 or (
                more > 0 and section.kind == "prim::DifferentiableGraph"
            ), (origin, section)
    assert sections > 50
    print(f"\n{sections} sections, {repeated} names repeated")
