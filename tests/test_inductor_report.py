"""Reports of torch.compile runs, made of what hooks inside torch saw (19 programs
on the CPU, 43 on an H100), against plain counts of the same facts.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from inductor_facts import compilation_of, facts_in

from fusiondoc import parse, render
from fusiondoc.diagnosis.of_fusers.inductor_report import inductor_report
from fusiondoc.fusers.inductor.compilation import (
    Access,
    Compilation,
    CompilationPart,
    CompiledGraph,
    FinalKind,
    FinalNode,
    GraphOperator,
    Recompile,
    Refusal,
)
from fusiondoc.fusers.inductor.kinds import AccessDifference, CallKind
from fusiondoc.model.boundaries import READ_TWICE, WRITTEN_AND_READ
from fusiondoc.model.reasons.of_inductor import StayedApart
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Coverage, FuserState, ParseStats

CPU = FIXTURES / "inductor" / "hooks-torch-2.13-cpu.tar.xz"
H100 = FIXTURES / "inductor" / "hooks-torch-2.11-h100.tar.xz"
NOTHING = ("NopKernelSchedulerNode", "MultiOutput")
PROGRAMS = [
    (archive, name) for archive in (CPU, H100) for name in sorted(facts_in(archive))
]


def nothing_yet() -> Report:
    stats = ParseStats(0, 0, 0, 0, (), 0, 0.0, 0)
    state = FuserState(None, None, None)
    return Report({}, state, (), (), (), (), (), (), Coverage(0, None, None), stats)


def report_of(compilation: Compilation) -> Report:
    return inductor_report(nothing_yet(), compilation, None)


def final_nodes(
    facts: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every node of every scheduler's last list that computes something, with its
    graph."""
    for graph in facts["graphs"]:
        for node in graph.get("after", ()):
            if node["kind"] not in NOTHING and node["node"] not in NOTHING:
                yield graph, node


@pytest.fixture(
    params=PROGRAMS, ids=lambda value: f"{value[0].name[:19]}-{value[1]}"
)
def facts(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    archive, name = request.param
    return facts_in(archive)[name]


def test_a_final_node_is_a_group_or_a_call(facts: Mapping[str, Any]) -> None:
    report = report_of(compilation_of(facts))
    nodes = [node for _, node in final_nodes(facts)]
    calls = [node for node in nodes if node["kind"] == "ExternKernelSchedulerNode"]
    patterns = [node for node in calls if node["op"].startswith("mkldnn")]
    assert report.fusion_groups == len(nodes) - len(calls) + len(patterns)
    assert sum(row.count for row in report.unfused) == len(calls) - len(patterns)
    assert report.fuser.effective == "inductor" and report.frontend == "dynamo"


def test_bytes_of_groups_are_those_of_the_scheduler(
    facts: Mapping[str, Any],
) -> None:
    report = report_of(compilation_of(facts))
    moved = Counter(
        (node["read"], node["write"])
        for _, node in final_nodes(facts)
        if node["kind"] != "ExternKernelSchedulerNode"
        or node["op"].startswith("mkldnn")
    )
    found: Counter[tuple[int | None, int | None]] = Counter()
    for group in report.groups:
        found[group.bytes_in, group.bytes_out] += group.count
    assert found == moved


def test_every_operator_is_accounted_for(facts: Mapping[str, Any]) -> None:
    """The hooks do not see the kernels of mixed-order reductions, of kernels of the
    program, and of some results that stay in a kernel: only there an operator may
    be missing."""
    report = report_of(compilation_of(facts))
    assert report.compiled is not None
    graphs = [graph for graph in facts["graphs"] if graph.get("after")]
    for graph, row in zip(graphs, report.compiled.graphs):
        accounts = row.accounts
        assert accounts is not None
        found = (
            accounts.in_groups + accounts.in_calls + accounts.views + accounts.dead
        )
        assert found + len(accounts.not_found) == len(graph["post_grad_nodes"])
        seen = {name for kernel in graph["kernels"] for name in kernel["snodes"]}
        lacking = [
            node
            for node in graph["after"]
            if node["node"] not in NOTHING
            and node["kind"] not in NOTHING
            and seen.isdisjoint((*node["members"], *node["writes"]))
        ]
        if not lacking:
            named = {
                op["name"] for kernel in graph["kernels"] for op in kernel["ops"]
            }
            assert named.isdisjoint(accounts.not_found)
            assert set(accounts.not_found) <= {"exp_default"}


def plain_pairs(
    graph: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """Pairs of final nodes that name one buffer, by the facts alone."""
    nodes = [
        node
        for node in graph["after"]
        if node["kind"] not in NOTHING and node["node"] not in NOTHING
    ]
    for number, first in enumerate(nodes):
        for second in nodes[number + 1 :]:
            reads = set(second["reads"]) - set(second["writes"])
            if reads & set(first["writes"]):
                yield first, second, WRITTEN_AND_READ
            elif reads & (set(first["reads"]) - set(first["writes"])):
                yield first, second, READ_TWICE


def test_boundaries_are_the_pairs_that_share_a_buffer(
    facts: Mapping[str, Any],
) -> None:
    """Of graphs without concatenations and results taken apart, whose memory has
    two names."""
    for index, graph in enumerate(facts["graphs"]):
        if not graph.get("after") or any(
            node["kind"] in NOTHING or node["node"] in NOTHING
            for node in graph["after"]
        ):
            continue
        report = report_of(
            compilation_of({**facts, "graphs": facts["graphs"][index : index + 1]})
        )
        pairs = list(plain_pairs(graph))
        kinds = Counter(kind for _, _, kind in pairs)
        found: Counter[str] = Counter()
        calls = 0
        for boundary in report.boundaries:
            found[boundary.kind] += boundary.count
            calls += boundary.count * (
                boundary.cause is not None
                and boundary.cause.code in ("FD261", "FD270")
            )
        assert found == kinds
        assert calls == sum(
            "ExternKernelSchedulerNode" in (first["kind"], second["kind"])
            for first, second, _ in pairs
        )


def test_causes_of_boundaries_of_the_19_programs() -> None:
    """The study of these recordings counted 34 of "no shared data", 17 of
    "intermediate nodes", 2 silent."""
    causes: Counter[tuple[str, str]] = Counter()
    for facts in facts_in(CPU).values():
        for boundary in report_of(compilation_of(facts)).boundaries:
            assert boundary.cause is not None and boundary.cause.detail is not None
            causes[boundary.cause.code, boundary.cause.detail.source] += (
                boundary.count
            )
    assert causes["FD262", "pair"] == 34
    assert causes["FD265", "pair"] == 17
    assert causes["FD267", "no text"] == 2
    assert (
        causes["FD265", "never tried"] == 6
    )  # around the concatenation of cat_split
    assert {code for code, _ in causes} == {"FD261", "FD262", "FD265", "FD267"}


# -- rules, on graphs of a few nodes ------------------------------------------------------------------------


def loops(
    name: str, reads: str, writes: str, operators: str = "", **more: Any
) -> FinalNode:
    return FinalNode(
        name,
        tuple(name.split("_")),
        more.pop("kind", FinalKind.LOOPS),
        None,
        operators=tuple(operators.split()),
        reads=tuple(Access(buffer, 1024) for buffer in reads.split()),
        writes=tuple(Access(buffer, 1024) for buffer in writes.split()),
        read_bytes=1024,
        write_bytes=1024,
        **more,
    )


def graph_of(*final: FinalNode, **more: Any) -> CompiledGraph:
    names = dict.fromkeys(name for node in final for name in node.operators)
    operators = tuple(
        GraphOperator(
            name,
            "call_function",
            f"aten.{name.split('_')[0]}.Tensor",
            (),
            source="model.py:7",
        )
        for name in names
    )
    known = {
        "compile_id": "0/0",
        "phase": "forward",
        "order": 0,
        "holds": frozenset((CompilationPart.GRAPH, CompilationPart.DECISIONS)),
        "operators": operators,
        **more,
    }
    return CompiledGraph(final=final, **known)


def cause(graph: CompiledGraph) -> tuple[str, str, bool] | None:
    """Code, sentence and ``stated`` of the only boundary."""
    (boundary,) = report_of(Compilation((graph,))).boundaries
    found = boundary.cause
    return (found.code, found.text, found.stated) if found is not None else None


A, B = (
    loops("op0", "arg0", "buf0", "add"),
    loops("op1_op2", "buf0", "buf1", "sum_1"),
)


def test_the_refusal_of_these_two_counts_before_one_of_parts() -> None:
    refusals = (
        Refusal("op0", "op1", "no shared data", 1, False),
        Refusal("op0", "op1_op2", "Fusion will increase peak memory", 2, True),
    )
    code, text, stated = cause(graph_of(A, B, refusals=refusals)) or ("", "", False)
    assert (code, stated) == ("FD274", True) and "increase peak memory" in text


def test_a_refusal_of_parts_in_an_earlier_round_is_shown_as_one_and_not_stated() -> (
    None
):
    refusals = (Refusal("op0", "op1", "no shared data", 1, False),)
    code, text, stated = cause(graph_of(A, B, refusals=refusals)) or ("", "", True)
    assert (code, stated) == ("FD262", False) and "earlier round" in text


def test_a_refusal_of_others_is_of_no_boundary() -> None:
    refusals = (Refusal("op0", "op9", "no shared data", 1, True),)
    assert (cause(graph_of(A, B, refusals=refusals)) or ("",))[0] == "FD279"


def test_without_decisions_the_cause_is_not_known() -> None:
    assert cause(graph_of(A, B, holds=frozenset((CompilationPart.GRAPH,)))) is None


def test_a_silent_refusal_is_worked_out_by_sizes() -> None:
    silent = (Refusal("op0", "op1_op2", None, 1, True),)
    sized = [
        loops(node.name, "x", f"{node.name}_", op, sizes=size)
        for node, op, size in ((A, "add", "((64,), ())"), (B, "mul", "((32,), ())"))
    ]
    code, _, stated = cause(graph_of(*sized, refusals=silent)) or ("", "", True)
    assert (code, stated) == ("FD263", False)
    alike = [
        loops(node.name, "x", f"{node.name}_", op, sizes="((64,), ())")
        for node, op in ((A, "add"), (B, "mul"))
    ]
    assert (cause(graph_of(*alike, refusals=silent)) or ("",))[0] == "FD279"


def test_a_call_is_the_cause_and_what_stands_between_is_named() -> None:
    product = loops(
        "op1",
        "buf0",
        "buf1",
        "mm",
        kind=FinalKind.CALL,
        call=CallKind.LIBRARY,
        kernel="extern_kernels.mm",
    )
    last = loops("op2", "buf0 buf1", "buf2", "add_1")
    refusals = (
        Refusal("op0", "op2", "intermediate nodes between node1 & node2", 1, True),
    )
    report = report_of(
        Compilation((graph_of(A, product, last, refusals=refusals),))
    )
    by_code = {
        one.cause.code: one for one in report.boundaries if one.cause is not None
    }
    assert set(by_code) == {"FD261", "FD265"}
    between = by_code["FD265"]
    assert [end.op for end in between.between] == ["aten::mm"] and between.between[
        0
    ].row == 0
    assert (
        "aten::mm, a call of a library, stands between them"
        in (between.cause or report).text
    )  # type: ignore[union-attr]
    assert report.unfused[0].reason.code == "FD251"


def test_no_shared_data_names_the_difference_that_torch_found() -> None:
    shared = (("arg0_1", "different offset: 0 v.s. 48"), ("arg1_1", "broadcast"))
    refusals = (
        Refusal("op0", "op1_op2", "no shared data", 1, True, why_not_shared=shared),
    )
    _, text, _ = cause(graph_of(A, B, refusals=refusals)) or ("", "", False)
    assert "arg0_1 in another part and arg1_1 broadcast by one of them" in text


def test_two_stages_of_a_reduction() -> None:
    first = loops("op0", "arg0", "buf0", "sum_1", kernel="triton_red_fused_sum_0")
    second = loops("op1", "buf0", "buf1", "sum_1", kernel="triton_per_fused_sum_1")
    refusals = (
        Refusal(
            "op0", "op1", "numel/rnumel mismatch (reduce) (8, 1), (64, 8)", 1, True
        ),
    )
    assert (cause(graph_of(first, second, refusals=refusals)) or ("",))[
        0
    ] == "FD266"


def test_an_operator_that_two_groups_compute_counts_once() -> None:
    report = report_of(
        Compilation(
            (
                graph_of(
                    loops("op0", "x", "buf0", "mul sum"),
                    loops("op1", "x", "buf1", "mul amax"),
                ),
            )
        )
    )
    assert report.fused_operators == 3 == report.coverage.ops_fused
    assert report.compiled is not None
    (again,) = report.compiled.computed_again
    assert (again.op, again.times, again.groups) == ("aten::mul", 2, ("G1", "G2"))


def test_a_recompile_for_other_sizes_is_a_specialisation() -> None:
    graphs = tuple(graph_of(A, compile_id=f"0/{number}") for number in range(2))
    other = graph_of(loops("op0", "arg0", "buf0", "exp"), compile_id="0/2")
    report = report_of(Compilation((*graphs, other)))
    rows = {
        group.ops: (group.specialisation, group.respecialises)
        for group in report.groups
    }
    assert [
        (group.specialisation, group.respecialises) for group in report.groups
    ] == [
        (1, None),
        (1, None),
        (2, "G1"),
    ]
    assert rows["aten::exp",] == (1, None)
    assert report.fused_operators == 2


def test_equal_layers_are_one_row_and_the_kernel_of_each_is_known() -> None:
    equal = (
        loops("op0", "x", "buf0", "add"),
        loops("op1", "buf0", "buf1", "add_1"),
    )
    report = report_of(Compilation((graph_of(*equal),)))
    (group,) = report.groups
    assert group.count == 2 and report.fused_operators == 2
    (boundary,) = report.boundaries
    assert (boundary.producer, boundary.consumer) == (
        boundary.consumer,
        boundary.producer,
    )


def test_guards_of_a_function_are_listed_once() -> None:
    again = tuple(
        Recompile(
            "f",
            "model.py:3",
            ("tensor 'x' size mismatch at index 0. expected 16, actual 24",),
            f"0/{n}",
        )
        for n in range(1, 3)
    )
    report = report_of(Compilation((graph_of(A),), recompiles=again))
    assert report.compiled is not None
    (row,) = report.compiled.recompiles
    assert (row.count, len(row.guards), row.limit_reached) == (2, 1, False)


def test_no_layout_is_advised_for_reductions(tmp_path: Path) -> None:
    """Batch normalisation in training sums over all dimensions but the second: in
    whatever layout, that is another order than the one in which the elements lie.
    And the C++ backend refuses, without a text, an addition of 4096 elements before
    a layer normalisation of 64 rows."""
    with tarfile.open(
        FIXTURES / "inductor" / "reductions-torch-2.13-cpu.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = parse(tmp_path / "reductions")
    found = {
        one.code: one for one in report.findings if one.code in ("FD262", "FD263")
    }
    assert [one.severity for one in found.values()] == ["note", "note"]
    assert "reduces over dimensions before the last" in found["FD262"].message
    assert "batch normalisation" in (found["FD262"].advice or "")
    assert "the same elements in the same order" in (found["FD263"].advice or "")
    assert not report.plan
    differences = {
        access.difference
        for row in report.boundaries
        if row.cause is not None and isinstance(row.cause.detail, StayedApart)
        for access in row.cause.detail.accesses
    }
    assert {AccessDifference.REDUCTION, AccessDifference.LOOPS} <= differences


def test_no_layout_is_advised_for_a_mask_beside_a_pooling(tmp_path: Path) -> None:
    """ReLU, a pooling and a leaky ReLU as they train: the mask that is saved for
    the gradients (``le``) reads the elements that the pooling reads in windows."""
    with tarfile.open(
        FIXTURES / "inductor" / "pooling-torch-2.13-cpu.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = parse(tmp_path / "pooling")
    masks = {
        group.id
        for group in report.groups
        if group.ops == ("aten::relu", "aten::le")
    }
    beside = [
        one
        for one in report.boundaries
        if {one.producer.group, one.consumer.group} & masks
    ]
    assert {
        one.producer.group in masks for one in beside if one.kind == READ_TWICE
    } == {True, False}
    layouts = [one for one in report.findings if one.code == "FD262"]
    assert layouts and all(
        one.severity == "note" and one.nothing_to_do for one in layouts
    )
    assert not report.plan


def indexed(tmp_path: Path) -> Report:
    with tarfile.open(
        FIXTURES / "inductor" / "indexed-torch-2.13-cpu.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    return parse(tmp_path / "indexed")


def test_no_layout_is_advised_where_indices_are_computed(tmp_path: Path) -> None:
    """Torch's own comparison states "broadcast" of the four elements that an
    interpolation reads at indices ``8*tmp0 + tmp1``."""
    report = indexed(tmp_path)
    (boundary,) = report.boundaries
    assert boundary.cause is not None and isinstance(
        boundary.cause.detail, StayedApart
    )
    assert [one.difference for one in boundary.cause.detail.accesses] == [
        AccessDifference.COMPUTED
    ]
    (found,) = [one for one in report.findings if one.code == boundary.cause.code]
    assert found.severity == "note" and "at indices that it computes" in (
        found.advice or ""
    )
    assert len(report.plan) == 1 and "Graph break" in str(report.plan[0])


def test_a_break_in_a_loop_names_its_own_reason(tmp_path: Path) -> None:
    """Not that Dynamo gave up because of it, nor the second break that came of
    that."""
    report = indexed(tmp_path)
    assert report.compiled is not None
    (row,) = report.compiled.breaks
    assert (
        row.reason
        == "Dynamic shape operator, and all of the function runs in eager code"
    )
    assert (
        row.number == "GB0036"
        and row.user_source is not None
        and row.user_source.endswith(":13")
    )
    assert (
        len(row.hints) == 1 and "capture_dynamic_output_shape_ops" in row.hints[0]
    )


def test_the_code_alone_shows_what_loops_of_a_function_change_in_place(
    tmp_path: Path,
) -> None:
    """In the log alone the boundaries are those of the capture, whose rows have the
    dependencies of Inductor's nodes: GELU's gradient, which the sum after it reads,
    is written over the product before it, and ``index_add`` adds to the zeros that
    a loop before it wrote."""
    with tarfile.open(
        FIXTURES / "inductor" / "in-place-torch-2.13-cpu.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    of_run, of_code = (
        ends_of(parse(tmp_path / "in_place")),
        ends_of(parse(tmp_path / "in_place" / "log")),
    )
    assert of_run == of_code
    assert {
        ("G7", "G8", WRITTEN_AND_READ),
        ("G3", "G4", WRITTEN_AND_READ),
    } <= of_run.keys()


def test_a_graph_of_views_alone_has_nothing_to_fuse(tmp_path: Path) -> None:
    with tarfile.open(
        FIXTURES / "inductor" / "views-torch-2.13-cpu.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = parse(tmp_path / "views")
    assert report.compiled is not None and report.compiled.views_alone == 3
    screen = " ".join(render(report, "text").split())
    assert "Fused nothing: 3 views, which compute nothing Nothing to do" in screen
    assert report.findings == () and "unknown" not in screen.partition("Log")[0]


def ends_of(report: Report) -> Counter[tuple[str, str, str]]:
    """How many boundaries are between two groups, or a group and calls."""
    found = Counter[tuple[str, str, str]]()
    for one in report.boundaries:
        found[
            one.producer.group or "call", one.consumer.group or "call", one.kind
        ] += one.count
    return found


def test_a_kernel_before_a_split_reduction_has_its_cause(tmp_path: Path) -> None:
    """``h.abs().max()`` of 16384 elements on an H200: the first stage reads them as
    2 times 8192. Torch's text is "no shared data"; both are in order, so that no
    layout changes anything."""
    with tarfile.open(
        FIXTURES / "inductor" / "split-reduction-torch-2.11-h200.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = parse(tmp_path / "split_reduction")
    first, second = (
        next(group for group in report.groups if group.id == name)
        for name in ("G3", "G4")
    )
    assert first.ops[-1] == "aten::max" and second.ops[-2:] == (
        "aten::max",
        "aten::gt",
    )
    causes = {
        (row.producer.group, row.consumer.group): row.cause
        for row in report.boundaries
    }
    before, between = causes["G2", "G3"], causes["G3", "G4"]
    assert before is not None and (before.code, before.stated) == ("FD266", True)
    assert before.text.endswith("(torch: no shared data)")
    assert between is not None and between.code == "FD266"
    # The second stage goes on with gt: it would stay as a kernel of its own.
    assert report.compiled is not None and report.compiled.second_stages == ()
    assert not [one for one in report.plan if "FD262" in one.codes]
