"""Which groups find each other, on small reports made for each case."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from conftest import FIXTURES

from fusiondoc.alignment import align
from fusiondoc.comparison import speed_change
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.comparison.kernel_code import changed_lines, normalised
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Group, Instance, Kernel, OpNode, Report, Unfused
from fusiondoc.model.runs import Coverage, FuserState, ParseStats, Speed, Spread
from fusiondoc.views.comparison_words import group_head, once_each, sides_of
from fusiondoc.views.comparison_words import unfused as unfused_words
from fusiondoc.workflows.load import report_from

FLOAT, HALF = (
    "Float(8, 64, requires_grad=0, device=cuda:0)",
    "Half(8, 64, requires_grad=0, device=cuda:0)",
)


def group(number: int, ops: str, line: object = 10, **other: object) -> Group:
    """``ops`` one a line from ``line`` on; a line of None means no sources."""
    nodes = []
    for at, op in enumerate(ops.split()):
        source = f"m.py:{line + at}:8" if isinstance(line, int) else None
        nodes.append(
            OpNode(f"aten::{op}", source, source and source.rpartition(":")[0])
        )
    made = Group(
        f"G{number}", "CudaFusionGroup", f"prim::CudaFusionGroup_{number}", "forward", 1, None, tuple(nodes),
        (FLOAT,), (FLOAT,), 4, (), None, None, False, None,
    )  # fmt: skip
    return replace(made, **other)  # type: ignore[arg-type]


def report(*groups: Group, kernels: tuple = (), unfused: tuple = ()) -> Report:
    numbered = tuple(replace(g, id=f"G{n}") for n, g in enumerate(groups, 1))
    fused = sum(len(g.nodes) for g in groups)
    return Report(
        {}, FuserState(None, "nvfuser", None), (), numbered, unfused, (), kernels, (),
        Coverage(fused, fused, 1.0), ParseStats(1, 1, 0, 0, (), 0, 0.0, 1),
    )  # fmt: skip


def told(a: Report, b: Report) -> list:
    return [
        (
            c.kinds,
            [r.id for r in c.a],
            [r.id for r in c.b],
            [n.op for n in c.ops_gone],
            [n.op for n in c.ops_added],
        )
        for c in compare(a, b).groups
    ]


def test_functions_that_changed_places() -> None:
    one, other = "add mul relu", "sub exp div"
    before = report(group(1, one, 10), group(2, other, 30))
    assert told(before, report(group(1, other, 10), group(2, one, 30))) == []


def test_a_line_that_was_cut_in_two() -> None:
    before = report(replace(group(1, "add mul relu", 10), nodes=tuple(
        OpNode(f"aten::{op}", f"m.py:{line}:8", None) for op, line in (("add", 10), ("mul", 10), ("relu", 11))
    )))  # fmt: skip
    after = report(group(1, "add mul relu", 10))
    assert told(before, after) == []


def test_the_same_operators_elsewhere_are_another_group() -> None:
    """Lines 10 and 20 are on both sides; what is fused is not the same."""

    def outside(line: int) -> tuple:
        reason = Reason("FD225", "nothing next to it", False)
        return tuple(
            Unfused(
                f"aten::{op}", f"m.py:{line + at}:8", None, "forward", 1, reason, ()
            )
            for at, op in enumerate(("add", "relu"))
        )

    before = report(group(1, "add relu", 10), unfused=outside(20))
    after = report(group(1, "add relu", 20), unfused=outside(10))
    assert told(before, after) == [
        (("added",), [], ["G1"], [], []),
        (("gone",), ["G1"], [], [], []),
    ]
    assert [(u.change, u.source) for u in compare(before, after).unfused] == [
        ("came", "m.py:10:8"), ("came", "m.py:11:8"), ("gone", "m.py:20:8"), ("gone", "m.py:21:8"),
    ]  # fmt: skip


def test_a_group_that_is_gone_says_why() -> None:
    reason = Reason("FD225", "nothing next to it", False)
    row = Unfused("aten::relu", "m.py:11:8", None, "forward", 1, reason, ())
    other = Unfused("aten::relu", "m.py:90:8", None, "forward", 1, reason, ())
    comparison = compare(report(group(1, "add relu")), report(unfused=(row, other)))
    assert [c.kinds for c in comparison.groups] == [("gone",)]
    assert [u.source for u in comparison.groups[0].because] == ["m.py:11:8"]
    assert len(comparison.unfused) == 2


def test_one_more_of_many_equal_groups() -> None:
    nine = [group(n, "sin add", 5) for n in range(9)]
    assert told(report(*nine), report(*nine, group(9, "sin add", 5))) == [
        (("added",), [], ["G10"], [], [])
    ]
    assert told(report(*nine), report(*nine[:7]))[0][0] == ("gone",)


def in_layers(made: Group, *layers: int) -> Group:
    return replace(
        made, instances=tuple(Instance(f"layers.{n}", (), None) for n in layers)
    )


def test_of_equal_groups_the_module_that_lost_its_group_is_named() -> None:
    before = report(in_layers(group(1, "tanh mul"), 0, 1, 2, 3))
    after = report(in_layers(group(1, "tanh mul"), 0, 1, 3))
    (change,) = compare(before, after).groups
    assert (change.kinds, change.count, change.layers, change.a[0].instances) == (
        ("gone",),
        1,
        ("layers.2",),
        4,
    )
    assert group_head(change).startswith(
        "G1 of A is gone in 1 of 4 instances (layers.2); forward; "
    )
    (change,) = compare(after, before).groups
    assert group_head(change).startswith(
        "G1 of B is new in 1 of 4 instances (layers.2); forward; "
    )


def test_a_change_says_which_groups_of_which_side_and_in_how_many_places() -> None:
    parts = report(
        in_layers(group(1, "add mul", 10), *range(9)),
        in_layers(group(2, "relu tanh", 12), *range(9)),
    )
    whole = report(in_layers(group(1, "add mul relu tanh", 10), *range(9)))
    (change,) = compare(parts, whole).groups
    assert (
        group_head(change)
        == "G1 and G2 of A are now G1 of B in all 9 instances (layers.[0-8]); forward"
    )
    assert sides_of(change) == [
        "A G1: 2 operators: add, mul",
        "A G2: 2 operators: relu, tanh",
        "B G1: 4 operators: add, mul, relu, tanh",
    ]
    (change,) = compare(whole, parts).groups
    assert (
        group_head(change)
        == "G1 of A is now G1 and G2 of B in all 9 instances (layers.[0-8]); forward"
    )


def test_merged_groups_are_named_in_the_order_of_their_report() -> None:
    """The part that is matched first is the larger one."""
    parts = report(group(1, "add mul", 10), group(2, "relu tanh sin", 12))
    (change,) = compare(parts, report(group(1, "add mul relu tanh sin", 10))).groups
    assert group_head(change) == "G1 and G2 of A are now G1 of B; forward"


def test_another_specialisation() -> None:
    first = group(1, "add mul")
    second = group(
        2, "add mul", inputs=(HALF,), specialisation=2, respecialises="G1"
    )
    assert told(report(first), report(first, second)) == [
        (("added",), [], ["G2"], [], [])
    ]
    # In another order they are the same two.
    swapped = report(
        replace(second, specialisation=1, respecialises=None),
        replace(first, specialisation=2),
    )
    assert told(report(first, second), swapped) == []
    assert told(report(first), report(replace(first, inputs=(HALF,))))[0][0] == (
        "types",
    )


def test_inputs_in_another_order_and_requires_grad_are_no_types() -> None:
    before = group(1, "add mul", inputs=(FLOAT, HALF))
    grad = FLOAT.replace("requires_grad=0", "requires_grad=1")
    assert told(report(before), report(replace(before, inputs=(HALF, grad)))) == []


def test_merged_and_regrouped() -> None:
    parts = report(group(1, "add mul", 10), group(2, "relu tanh", 12))
    whole = report(group(1, "add mul relu tanh", 10))
    assert told(parts, whole) == [(("merged",), ["G1", "G2"], ["G1"], [], [])]
    assert told(whole, parts) == [(("split",), ["G1"], ["G1", "G2"], [], [])]


def test_split_in_three_with_an_operator_lost() -> None:
    whole = report(group(1, "add mul relu tanh exp sub div", 10))
    parts = report(
        group(1, "add mul", 10), group(2, "tanh exp", 13), group(3, "sub div", 15)
    )
    assert told(whole, parts) == [
        (("split", "operators"), ["G1"], ["G1", "G2", "G3"], ["aten::relu"], []),
    ]


def test_without_sources() -> None:
    before = report(group(1, "add mul relu", None), group(2, "sub exp", None))
    assert (
        told(
            before,
            report(group(1, "sub exp", None), group(2, "add mul relu", None)),
        )
        == []
    )
    assert (
        told(before, report(group(1, "sub exp", 7), group(2, "add mul relu", 20)))
        == []
    )
    assert told(
        before,
        report(group(1, "sub exp", None), group(2, "add mul relu tanh", None)),
    ) == [(("operators",), ["G1"], ["G2"], [], ["aten::tanh"])]


def test_a_log_that_tells_no_phase() -> None:
    before = report(group(1, "add mul"), group(2, "add mul", phase="backward"))
    after = report(*(replace(g, phase=None) for g in before.groups))
    assert told(before, after) == []
    other = report(group(1, "add mul", phase="backward"))
    assert sorted(row[0] for row in told(report(group(1, "add mul")), other)) == [
        ("added",),
        ("gone",),
    ]


def test_equal_groups_are_paired_by_their_kernels() -> None:
    def kernel(number: int, group_id: str, ms: float) -> Kernel:
        return Kernel(
            f"K{number}", f"kernel{number}", (group_id,), 5, (128, 1, 1), (8, 1, 1), 0,
            Spread(ms, ms, ms), None, None, None, None, f"void kernel{number}() {{ {ms}; }}",
        )  # fmt: skip

    def side(order: list) -> Report:
        groups = [group(n, "add mul", 10, kernels=(f"K{n}",)) for n in (1, 2)]
        return report(
            *groups,
            kernels=tuple(kernel(n, f"G{n}", ms) for n, ms in zip((1, 2), order)),
        )

    comparison = compare(side([1.0, 9.0]), side([9.0, 1.0]))
    assert comparison.same and comparison.kernels_same == 2


def test_other_work_is_neither_slower_nor_faster() -> None:
    def side(ms: float, dtype: str, ops: str = "add mul") -> Report:
        types = (
            f"{dtype}(8, 64, strides=[64, 1], requires_grad=0, device=cuda:0)",
        )
        one = group(1, ops, kernels=("K1",), inputs=types, outputs=types)
        time = Spread(ms, ms, ms)
        kernel = Kernel(
            "K1", "kernel1", ("G1",), 5, None, None, None, time, None, None, None, None, None
        )  # fmt: skip
        return report(one, kernels=(kernel,))

    def kinds(a: Report, b: Report) -> tuple:
        comparison = compare(a, b)
        return [c.kinds for c in comparison.groups], [
            c.kinds for c in comparison.kernels
        ]

    assert kinds(side(1, "Float"), side(2, "Float")) == (
        [("slower",)],
        [("slower",)],
    )
    assert kinds(side(1, "Float"), side(2, "Double")) == ([("types",)], [])
    assert kinds(side(1, "Float"), side(2, "Float", "add mul relu")) == (
        [("operators",)],
        [],
    )


def test_values_are_renamed_and_vector_widths_are_not() -> None:
    one = "float T12[4];\nfor(int i7 = 0; i7 < 4; ++i7) { T12[i7] = T3[i7] + d9; }\nuint4 r; 0x7f00deadbeef"
    other = (
        one.replace("T12", "T90")
        .replace("i7", "i1")
        .replace("d9", "d11")
        .replace("deadbeef", "00000000")
    )
    assert normalised(one) == normalised(other) and changed_lines(one, other) == (
        0,
        0,
    )
    for real in (("[4]", "[8]"), ("uint4", "uint2"), ("T3", "T12"), ("+", "*")):
        assert changed_lines(one, one.replace(*real)) != (0, 0), real


def test_speed_respects_the_spread() -> None:
    quiet = Spread(1.0, 1.02, 9.0)
    assert speed_change(quiet, Spread(1.15, 1.2, 1.3), 0.1).change == "slower"  # type: ignore[union-attr]
    assert speed_change(Spread(1.15, 1.2, 1.3), quiet, 0.1).change == "faster"  # type: ignore[union-attr]
    # The fastest of B is as fast as A usually is.
    assert speed_change(quiet, Spread(1.0, 1.5, 2.0), 0.1).change is None  # type: ignore[union-attr]
    # A itself scatters as much.
    assert (
        speed_change(Spread(0.5, 1.0, 2.0), Spread(1.05, 1.3, 2.0), 0.1).change
        is None
    )  # type: ignore[union-attr]
    assert speed_change(None, quiet, 0.1) is None
    nan = float("nan")
    assert speed_change(Spread(nan, nan, nan), quiet, 0.1) is None
    assert speed_change(Spread(0.0, 0.0, 0.0), quiet, 0.1).ratio is None  # type: ignore[union-attr]


def test_lines_are_aligned_as_a_text_diff_does_it() -> None:
    def marks(text: str) -> list:
        return [
            frozenset((op, 0) for op in line.split("+")) for line in text.split()
        ]

    assert align(marks("a b c"), marks("a b c")) == [(0, 0), (1, 1), (2, 2)]
    assert align(marks("a b c"), marks("x a b y c")) == [(0, 1), (1, 2), (2, 4)]
    assert align(marks("a b+c d"), marks("a b d")) == [(0, 0), (1, 1), (2, 2)]
    assert align(marks("a a a"), marks("a a")) == [(0, 0), (1, 1)]
    assert align([], marks("a")) == []
    long = [frozenset({(f"op{n % 7}", n % 3)}) for n in range(3000)]
    assert align(long, long[:1000] + marks("new") + long[1000:]) == [
        (n, n + (n >= 1000)) for n in range(3000)
    ]


def timed(milliseconds: tuple) -> Report:
    """A report of ``--time`` with the least, median and largest times of four
    rows."""
    keys = [
        (way, phase)
        for way in ("eager", "fused")
        for phase in ("forward", "backward")
    ]
    rows = [
        Speed(way, phase, 0, Spread(*ms), 100)
        for (way, phase), ms in zip(keys, milliseconds)
    ]
    return replace(report(group(1, "add relu")), speed=tuple(rows))


ONE = (
    (0.12448, 0.137296, 0.2723),
    (0.155072, 0.194288, 0.5257),
    (0.124544, 0.14112, 0.1924),
    (0.185728, 0.290832, 0.5713),
)
OTHER = (
    (0.123744, 0.127248, 0.2115),
    (0.164288, 0.195744, 0.3117),
    (0.107296, 0.11168, 0.1819),
    (0.18272, 0.202032, 0.3135),
)
"""Two runs of examples/composite_layer_norm.py --backward --time on an H200, one
after the other."""


def test_two_runs_of_one_program_are_as_fast() -> None:
    assert compare(timed(ONE), timed(OTHER)).speed == ()
    assert compare(timed(OTHER), timed(ONE)).speed == ()


def test_passes_that_take_half_as_long_again_are_slower() -> None:
    long = tuple(tuple(10 * ms for ms in row) for row in OTHER)
    longer = tuple(tuple(1.5 * ms for ms in row) for row in long)
    changes = compare(timed(long), timed(longer)).speed
    assert [(c.way, c.phase, c.speed.change) for c in changes] == [
        (way, phase, "slower")
        for way in ("eager", "fused")
        for phase in ("forward", "backward")
    ]


def test_a_report_made_of_the_other_one_shares_rows_with_it() -> None:
    whole = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")]
    )
    less = replace(whole, groups=())
    assert whole.fallbacks and compare(whole, less).fallbacks
    assert compare(whole, less) == compare(whole, deepcopy(less))
    assert compare(less, whole) == compare(less, deepcopy(whole))


def test_what_split_a_group_is_named_in_another_function() -> None:
    b = report_from([str(FIXTURES / "logs" / "nnc-2.13-split-helper.log.xz")])
    whole = replace(b.groups[0], nodes=b.groups[0].nodes + b.groups[1].nodes)
    (change,) = compare(
        replace(b, groups=(whole,), unfused=(), programs=()), b
    ).groups
    assert change.kinds == ("split",)
    assert [(row.op, row.user_source) for row in change.because] == [
        ("aten::cumsum", "models/split_helper.py:5")
    ]


def test_operators_of_one_line_are_one_row_for_readers() -> None:
    def outside(column: int) -> Unfused:
        reason = Reason("FD226", "a view", False)
        return Unfused(
            "aten::slice", f"m.py:8:{column}", "m.py:8", "forward", 2, reason, ()
        )

    comparison = compare(
        report(group(1, "add")),
        report(group(1, "add"), unfused=(outside(4), outside(30))),
    )
    assert len(comparison.unfused) == 2
    (row,) = once_each(comparison.unfused)
    assert unfused_words(row) == "aten::slice x4  m.py:8  FD226 a view"
