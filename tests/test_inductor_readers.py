"""Logs and traces of torch.compile against what hooks inside of torch saw
(``fixtures/inductor``)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from inductor_recordings import RECORDINGS, Recording, read

from fusiondoc.fusers.inductor.compilation import (
    CompilationPart,
    CompiledGraph,
    FinalKind,
    FinalNode,
)
from fusiondoc.parsers.inductor.fusion_log import FusionLog

each = pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)


def graphs(recording: Recording, *paths: Path) -> list[tuple[CompiledGraph, dict]]:
    found = read(*paths).graphs
    facts = recording.facts["graphs"]
    assert len(found) == len(facts)
    return list(zip(found, facts))


@each
def test_final_nodes_are_those_of_the_scheduler(recording: Recording) -> None:
    for graph, facts in graphs(recording, recording.log):
        if facts["after"] is None:  # code generation failed
            continue
        expected = {
            node["name"]: (node["kind"], tuple(node["members"]))
            for node in facts["after"]
        }
        assert {
            node.name: (node.scheduler_class, node.members) for node in graph.final
        } == expected


@each
def test_every_refusal_with_a_text_is_read(recording: Recording) -> None:
    for graph, facts in graphs(recording, recording.log):
        assert [
            [one.first, one.second, one.text] for one in graph.refusals
        ] == facts["why"]
        last = [one.round for one in graph.refusals if one.last_round]
        assert not last or set(last) == {max(one.round for one in graph.refusals)}


@each
def test_nodes_of_the_graph_with_target_and_line(recording: Recording) -> None:
    for graph, facts in graphs(recording, recording.trace):
        computed = [one for one in graph.operators if one.op == "call_function"]
        assert [one.name for one in computed] == [
            node["name"] for node in facts["post_grad_nodes"]
        ]
        for operator, node in zip(computed, facts["post_grad_nodes"]):
            if (
                node["line"] is not None
            ):  # File "models/cases.py", line 22, in forward
                _, file, rest = node["line"].split('"')
                assert operator.source == f"{file}:{rest.split()[2].rstrip(',')}"
            if node["target"].startswith(("aten.", "prims.")):
                assert operator.target == node["target"]


@each
def test_kernels_of_final_nodes(recording: Recording) -> None:
    for graph, facts in graphs(recording, recording.trace, recording.log):
        kernels: dict[str, set[str]] = {}
        for kernel in facts["kernels"]:
            for name in kernel["snodes"]:
                kernels.setdefault(name.replace("buf", "op"), set()).add(
                    kernel["kernel"]
                )
        if CompilationPart.CODE not in graph.holds:
            continue
        assert graph.phase == ("backward" if facts["backward"] else "forward")
        for node in graph.final:
            own = set().union(
                *(kernels.get(member, set()) for member in node.members)
            )
            if own:
                assert node.kernel in {
                    name.removeprefix("torch.ops.") for name in own
                }


@each
def test_operators_of_kernels_are_origins_of_their_nodes(
    recording: Recording,
) -> None:
    for graph, facts in graphs(recording, recording.trace, recording.log):
        by_members: dict[str, set[str]] = {}
        for kernel in facts["kernels"]:
            for name in kernel["snodes"]:
                by_members.setdefault(name.replace("buf", "op"), set()).update(
                    kernel["ops"]
                )
        computed = {
            one.name for one in graph.operators if one.op == "call_function"
        }
        for node in graph.final:
            seen = set().union(
                *(by_members.get(member, set()) for member in node.members)
            )
            if seen and node.kind is not FinalKind.CALL:
                assert set(node.operators) <= seen & computed


VIEWS = {
    "getitem",
    "aten.reshape.default",
    "aten.permute.default",
    "aten.expand.default",
}
VIEWS |= {"aten.slice.Tensor", "aten.split.Tensor"}


@each
def test_every_node_is_in_a_kernel_or_a_call_or_computes_nothing(
    recording: Recording,
) -> None:
    for graph, _ in graphs(recording, recording.trace, recording.log):
        if CompilationPart.CODE not in graph.holds:
            continue
        computed = {name for node in graph.final for name in node.operators}
        used = {name for one in graph.operators for name in one.inputs}
        for operator in graph.operators:
            if (
                operator.op != "call_function"
                or operator.name in computed
                or operator.target in VIEWS
            ):
                continue
            in_place = any(node.kind is FinalKind.NOTHING for node in graph.final)
            assert (
                in_place
                if operator.target == "aten.cat.default"
                else operator.name not in used
            )


@each
def test_buffers_that_nodes_share_are_those_of_the_scheduler(
    recording: Recording,
) -> None:
    """The buffers that one node writes and another reads."""
    for graph, facts in graphs(recording, recording.trace, recording.log):
        if CompilationPart.CODE not in graph.holds:
            continue
        edges = {}
        for node in facts["after"]:
            read = {name for name in node["reads"] if name.startswith("buf")}
            edges[node["name"]] = read - set(node["writes"])
        mutated = {
            "index_ops",
            "inplace",
            "conv",
            "cat_split",
            "custom",
        }  # other names in the scheduler
        if recording.folder.name in mutated:
            continue
        for node in graph.final:
            if (
                node.kind in (FinalKind.LOOPS, FinalKind.OUTER_LOOP)
                and node.kernel is not None
            ):
                shared = {
                    one.buffer for one in node.reads if one.buffer.startswith("buf")
                }
                parts = {one.name for one in graph.buffers if one.part_of}
                assert shared - parts == edges[node.name] - parts


def traffic(node: FinalNode) -> tuple[int | None, int | None]:
    return node.read_bytes, node.write_bytes


def test_bytes_are_those_that_torch_counts() -> None:
    """Of plain kernels: torch counts what is read of a slice, and the code shows
    whole buffers."""
    equal = Counter[bool]()
    for recording in RECORDINGS:
        for graph, facts in graphs(recording, recording.trace, recording.log):
            counted = {
                node["name"]: (node["read"], node["write"])
                for node in facts["after"] or ()
            }
            for node in graph.final:
                if (
                    None not in traffic(node)
                    and node.kind is FinalKind.LOOPS
                    and node.name in counted
                ):
                    equal[traffic(node) == counted[node.name]] += 1
    assert equal[True] >= 45
    assert equal[False] <= equal[True] // 6, equal


def test_no_line_of_torch_is_left_over() -> None:
    for recording in RECORDINGS:
        assert read(recording.trace, recording.log).unknown_texts == ()


def test_breaks_and_recompiles_are_one_where_log_and_trace_show_them() -> None:
    def recorded(name: str) -> Recording:
        return next(one for one in RECORDINGS if one.name == name)

    broken = recorded("2.11-graph_break_small")
    (found,) = read(broken.trace, broken.log).breaks
    assert (found.number, found.source) == ("GB0059", "models/cases.py:66")
    assert found.reason == "Failed to trace builtin operator"
    assert "reorderable_logging_functions" in found.hints[1]
    grown = recorded("2.11-dynamic_small")
    (again,) = read(grown.trace, grown.log).recompiles
    assert again.guards == (
        "tensor 'x' size mismatch at index 0. expected 16, actual 24",
    )
    assert (again.function, again.source, again.compile_id) == (
        "dynamic",
        "models/cases.py:74",
        "0/1",
    )


@pytest.mark.parametrize(
    "text",
    [
        "ComboKernel benchmark: register spilling of 1-th subkernel",
        "ComboKernel: benchmarking may not accurate due to atomic_add",
        "Exception in compiling prologue: AssertionError",
        "Shared memory after inversion: 4096",
        "can fuse (assumed): fusing op0 with op1 (benchmarking skipped)",
    ],
)
def test_lines_that_decide_nothing_are_known(text: str) -> None:
    """Of torch 2.6 to 2.14."""
    log = FusionLog()
    log.take("0/0", "===== attempting fusion (1/10): 2 nodes =====", (0, 1))
    assert log.take("0/0", text, (0, 2)) == (True, None)
