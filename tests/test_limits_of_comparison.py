"""Decisions of comparisons at their limits: what is the same, what is slower, what
is new."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_compare_match import group, report, timed, told

from fusiondoc.comparison import (
    counted_bytes,
    measured,
    rate,
    rate_change,
    reached,
    total,
)
from fusiondoc.comparison.bench_changes import ratio_of_medians
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.comparison.positions import Positions
from fusiondoc.model.bench import Measured
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Fallback, Kernel, Report, Unfused
from fusiondoc.model.runs import Coverage, Spread

SAME = "__global__ void kernel1(Tensor<float, 2> T0) {"


def kernel(number: int, *lines: str, **more: object) -> Kernel:
    made = Kernel(
        f"K{number}",
        f"kernel{number}",
        (),
        5,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        "\n".join(lines),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def row(op: str, line: int, code: str = "FD201", **more: object) -> Unfused:
    source = f"m.py:{line}:8"
    made = Unfused(
        f"aten::{op}",
        source,
        f"m.py:{line}",
        "forward",
        1,
        Reason(code, "why", False),
        (),
    )
    return replace(made, **more)  # type: ignore[arg-type]


# -- speed ---------------------------------------------------------------------------------------------------


def test_one_launch_has_no_spread() -> None:
    time = Spread(1.0, 1.0, 1.0)
    once, twice = (
        kernel(1, ms=time, gb_per_s=time, launches=1),
        kernel(1, ms=time, gb_per_s=time, launches=2),
    )
    assert (measured(once), rate(once)) == (None, None)
    assert (measured(twice), rate(twice)) == (time, time)


@pytest.mark.parametrize(("apart", "known"), [(1.009, True), (1.02, False)])
def test_bytes_are_counted_where_both_figures_give_the_same(
    apart: float, known: bool
) -> None:
    one = kernel(
        1, ms=Spread(1.0, 1.5, 2.0), gb_per_s=Spread(50.0 * apart, 75.0, 100.0)
    )
    assert (counted_bytes(one) is not None) is known


def test_a_bandwidth_is_lower_where_the_best_of_it_is() -> None:
    before = Spread(90.0, 100.0, 110.0)
    assert rate_change(before, Spread(60.0, 80.0, 99.0), 0.1) == "lower"
    assert rate_change(before, Spread(60.0, 80.0, 101.0), 0.1) is None
    assert rate_change(Spread(60.0, 80.0, 99.0), before, 0.1) == "higher"
    assert rate_change(Spread(60.0, 80.0, 101.0), before, 0.1) is None


def test_kernels_have_a_time_together_if_each_has_one() -> None:
    time = Spread(1.0, 2.0, 3.0)
    timed_ones = [kernel(1, ms=time), kernel(2, ms=time)]
    assert total(timed_ones) == Spread(2.0, 4.0, 6.0)
    assert total([*timed_ones, kernel(3)]) is None


def test_one_pass_is_no_time_of_a_model() -> None:
    rows = ((1.0, 1.1, 1.2),) * 4
    slow = timed(((2.0, 2.1, 2.2),) * 4)
    assert len(compare(timed(rows), slow).speed) == 4
    once = replace(slow, speed=tuple(replace(one, passes=1) for one in slow.speed))
    assert compare(timed(rows), once).speed == ()


@pytest.mark.parametrize(
    ("times", "slower"), [(1.05, False), (1.2, True), (1.55, True)]
)
def test_a_tenth_more_is_slower(times: float, slower: bool) -> None:
    rows = ((10.0, 10.0, 10.0),) * 4
    longer = tuple(tuple(times * ms for ms in one) for one in rows)
    assert bool(compare(timed(rows), timed(longer)).speed) is slower


def test_the_interval_of_a_ratio_has_the_uncertainty_of_both_sides() -> None:
    exact, loose = Measured(1.0, 1.0, 1.0), Measured(1.0, 0.8, 1.25)
    alone = ratio_of_medians(exact, exact)
    for one, other in ((exact, loose), (loose, exact)):
        ratio = ratio_of_medians(one, other)
        assert ratio.low == pytest.approx(
            0.8 * alone.low
        ) and ratio.high == pytest.approx(1.25 * alone.high)


# -- what counts for --fail-on -------------------------------------------------------------------------------


def fell(count: int) -> Report:
    fallback = Fallback("run", None, count, True, None, ())
    return replace(report(group(1, "add mul")), fallbacks=(fallback,))


def test_more_fallbacks_are_worse_and_fewer_are_not() -> None:
    assert reached(compare(fell(2), fell(3)), "fallback")
    assert not reached(compare(fell(3), fell(2)), "fallback")


def test_an_equal_share_in_groups_is_no_smaller_one() -> None:
    whole = report(group(1, "add mul"))
    less = replace(whole, coverage=Coverage(2, 4, 0.5))
    assert not reached(compare(whole, whole), "coverage")
    assert reached(compare(whole, less), "coverage") and not reached(
        compare(less, whole), "coverage"
    )


# -- groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "same"),
    [("add mul relu sin", False), ("add mul relu tanh exp log cos", True)],
)
def test_by_names_alone_most_operators_have_to_be_the_same(
    ops: str, same: bool
) -> None:
    """A name counts three quarters: of three in four 0.56 is less than 0.6, of six
    in seven 0.64 is more."""
    before = "add mul relu tanh" if not same else "add mul relu tanh exp log sin"
    kinds = [
        change[0]
        for change in told(
            report(group(1, before, None)), report(group(1, ops, None))
        )
    ]
    assert kinds == ([("operators",)] if same else [("added",), ("gone",)])


def test_a_new_group_is_a_part_of_the_old_one_that_had_most_of_its_operators() -> (
    None
):
    """Both old groups have lines 12 and 13, the second has line 14 too."""
    two, three = group(3, "relu tanh", 12), group(3, "relu tanh sin", 12)
    first, second = (
        group(1, "add mul div sub", 20),
        group(2, "exp log cos abs neg", 30),
    )
    before = report(
        replace(first, nodes=first.nodes + two.nodes),
        replace(second, nodes=second.nodes + three.nodes),
    )
    changes = told(before, report(first, second, three))
    assert [(a, b) for _, a, b, _, _ in changes] == [
        (["G1"], ["G1"]),
        (["G2"], ["G2", "G3"]),
    ]


def test_the_groups_of_two_phases_are_two() -> None:
    changes = told(
        report(group(1, "add mul")), report(group(1, "add mul", phase="backward"))
    )
    assert sorted(change[0] for change in changes) == [("added",), ("gone",)]


@pytest.mark.parametrize(
    ("phase", "named"), [("forward", True), ("backward", False)]
)
def test_a_group_is_gone_because_of_what_came_in_its_phase(
    phase: str, named: bool
) -> None:
    kept = group(2, "sin cos", 30)
    after = report(kept, unfused=(row("add", 10, phase=phase),))
    (change,) = compare(report(group(1, "add mul"), kept), after).groups
    assert change.kinds == ("gone",) and bool(change.because) is named


# -- kernels -------------------------------------------------------------------------------------------------


def kinds_of(a: Kernel, b: Kernel) -> list[tuple[str, ...]]:
    """What changed between reports of one kernel each, of no group."""
    return sorted(
        change.kinds
        for change in compare(report(kernels=(a,)), report(kernels=(b,))).kernels
    )


@pytest.mark.parametrize(("same", "matched"), [(3, False), (7, True)])
def test_kernels_of_no_group_are_one_where_half_of_their_lines_are_the_same(
    same: int, matched: bool
) -> None:
    common = [f"shared({number});" for number in range(same)]
    a, b = (
        kernel(1, *common, *(f"{side}({n});" for n in range(10 - same)))
        for side in ("one", "other")
    )
    assert kinds_of(a, b) == ([("code",)] if matched else [("added",), ("gone",)])


def test_equal_parameters_count_where_few_lines_are_the_same() -> None:
    def of(parameter: str, name: str) -> Kernel:
        head = f"__global__ void kernel1({parameter} T0) {{"
        return kernel(
            1, head, "shared(1);", *(f"{name}({number});" for number in range(6))
        )

    assert kinds_of(
        of("Tensor<float, 2>", "one"), of("Tensor<float, 2>", "other")
    ) == [("code",)]
    assert kinds_of(
        of("Tensor<float, 2>", "one"), of("Tensor<double, 1>", "other")
    ) == [
        ("added",),
        ("gone",),
    ]


def test_the_kernels_of_a_new_group_are_not_named_again() -> None:
    kept = group(1, "add mul")
    new = group(2, "sin cos", 30, kernels=("K1",))
    after = report(kept, new, kernels=(kernel(1, SAME, groups=("G2",)),))
    comparison = compare(report(kept), after)
    assert [change.kinds for change in comparison.groups] == [
        ("added",)
    ] and comparison.kernels == ()
    loose = report(kept, new, kernels=(kernel(1, SAME),))
    assert [change.kinds for change in compare(report(kept), loose).kernels] == [
        ("added",)
    ]


def test_a_figure_that_one_side_lacks_is_no_change() -> None:
    known = kernel(1, SAME, registers=32)
    assert kinds_of(kernel(1, SAME), known) == []
    assert kinds_of(known, kernel(1, SAME, registers=40)) == [("registers",)]


# -- outside groups ------------------------------------------------------------------------------------------


def test_logs_that_both_lack_plans_are_compared_all_the_same() -> None:
    plain = replace(
        report(group(1, "add mul")),
        coverage=Coverage(2, None, None, unknown="no plan"),
    )
    more = replace(plain, unfused=(row("sort", 20),))
    assert [change.change for change in compare(plain, more).unfused] == ["came"]
    whole = replace(plain, coverage=Coverage(2, 2, 1.0))
    # What only the log without every plan lacks may have been there.
    assert compare(plain, replace(whole, unfused=more.unfused)).unfused == ()


@pytest.mark.parametrize("ran", [True, False])
def test_another_reason_of_what_never_ran_is_none(ran: bool) -> None:
    one, other = row("sort", 20), row("sort", 20, "FD227", ran=ran)
    changes = compare(report(unfused=(one,)), report(unfused=(other,))).unfused
    assert [change.change for change in changes] == (["reason"] if ran else [])


def test_an_operator_of_a_line_that_both_sides_have_did_not_move() -> None:
    both = row("add", 10), row("exp", 20)
    before = report(group(1, "mul relu", 30), unfused=(row("sort", 10), *both))
    after = report(group(1, "mul relu", 30), unfused=(row("sort", 20), *both))
    assert sorted(change.change for change in compare(before, after).unfused) == [
        "came",
        "gone",
    ]


@pytest.mark.parametrize(("equal", "renamed"), [(1, False), (3, True)])
def test_a_file_of_another_name_is_the_renamed_one_where_half_of_its_lines_are_equal(
    equal: int, renamed: bool
) -> None:
    ops = ["add", "mul", "relu", "tanh"]
    others = [*ops[:equal], *["sin", "cos", "exp"][: 4 - equal]]
    before = report(unfused=tuple(row(op, 10 + n) for n, op in enumerate(ops)))
    moved = [row(op, 10 + n) for n, op in enumerate(others)]
    after = report(
        unfused=tuple(
            replace(one, source=f"k.py:{10 + n}:8", user_source=None)
            for n, one in enumerate(moved)
        )
    )
    before = replace(
        before,
        unfused=tuple(replace(one, user_source=None) for one in before.unfused),
    )
    assert Positions(before, after).of(0, "m.py:10:8").aligned is renamed
