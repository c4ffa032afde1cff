"""Groups read from the log of a live run, against those that torch's graph API
finds in the same process."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from running import python_apart
from thorough import every

from fusiondoc.diagnosis.rules.fd3_specialisations import in_words
from fusiondoc.model.group_runs import GuardMiss
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

torch = pytest.importorskip("torch")

ORACLE = Path(__file__).parent / "live" / "group_oracle.py"

PROGRAMS = (
    *("chain", "split", "layers", "block", "lonely", "branch", "two_regions"),
    *(
        "blocks1",
        "blocks4",
        "two_sizes",
        "tuples",
        "one_loop",
        "long_loop",
        "recurrent",
        "stack",
        "normed",
    ),
    *(
        "traced_recurrent",
        "traced_stack",
        "traced_normed",
        "traced_blocks4",
        "traced_layers",
    ),
)
CASES = [
    f"{name}:{mode}:[[4, 8]]"
    for name in PROGRAMS
    for mode in ("inference", "backward")
]
CASES.remove(
    "recurrent:backward:[[4, 8]]"
)  # its regions' guards fail: torch lists no executor without a plan
OF_PLANS = every(4, CASES)
COUNTS = {
    "chain:inference:[[4, 8]]": 1,
    "chain:backward:[[4, 8]]": 2,
    "split:inference:[[4, 8]]": 2,
    "layers:inference:[[4, 8]]": 4,
    "lonely:inference:[[4, 8]]": 0,
    "branch:inference:[[4, 8]]": 2,
    "two_regions:backward:[[4, 8]]": 4,
    "blocks1:backward:[[4, 8]]": 2,
    "blocks4:backward:[[4, 8]]": 8,
}
"""The program still tests what it was written for: so many fusion nodes does it
have."""
OF_PASSES = [case for case in CASES if case in COUNTS or case in every(3, CASES)]
AGAIN = "chain:inference:[[4, 8], [5, 9]]"
CHECKED = "traced_checked_blocks4:backward:[[4, 8]]"


def run(
    folder: Path, cases: list[str], levels: str, fuser: str = "nnc"
) -> dict[str, tuple[Report, list]]:
    """One child for all cases: what fusiondoc reads in each one's part of the log,
    and what torch finds."""
    env = {**os.environ, "PYTORCH_JIT_LOG_LEVEL": levels}
    done = python_apart(ORACLE, fuser, *cases, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    whole = done.stderr
    found = {}
    parts = whole.split("\n== ")[1:]
    for case, text, plans in zip(cases, parts, json.loads(done.stdout)):
        log = folder / "one.log"
        log.write_text(text.partition("\n")[2])
        found[case] = (read_logs(find_logs([str(log)]))[0], plans)
    assert len(found) == len(cases)
    return found


@pytest.fixture(scope="module")
def passes(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Report, list]]:
    levels = "profiling_graph_executor_impl:tensorexpr_fuser"
    return run(
        tmp_path_factory.mktemp("passes"), [*OF_PASSES, AGAIN, CHECKED], levels
    )


@pytest.fixture(scope="module")
def plans(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Report, list]]:
    """Logs that show optimised graphs alone."""
    return run(
        tmp_path_factory.mktemp("plans"), OF_PLANS, "profiling_graph_executor_impl"
    )


def nodes(report: Report) -> Counter:
    """(phase, operators, input types) -> how many instances, of groups that are not
    for other types."""
    found: Counter = Counter()
    for group in report.groups:
        if group.respecialises is None:
            found[group.phase, group.ops, group.inputs] += len(group.instances)
    return found


def of_torch(plans: list) -> Counter:
    return Counter(
        (phase, tuple(ops), tuple(types))
        for phase, groups in plans
        for ops, types in groups
    )


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        *(("passes", case) for case in OF_PASSES),
        *(("plans", case) for case in OF_PLANS),
    ],
)
def test_instances_are_the_nodes_of_the_graph_api(
    case: str, shown: str, request: pytest.FixtureRequest
) -> None:
    report, plans = request.getfixturevalue(shown)[case]
    assert nodes(report) == of_torch(plans)
    if case != "long_loop:backward:[[4, 8]]":  # torch takes its fallback functions
        assert {group.specialisation for group in report.groups} <= {1}
    assert report.fusion_groups == COUNTS.get(case, report.fusion_groups)
    assert report.parse.truncated == 0


def test_equal_blocks_are_one_row_with_an_instance_each(passes: dict) -> None:
    report, _ = passes["blocks4:backward:[[4, 8]]"]
    rows = [(group.phase, group.count) for group in report.groups]
    assert rows == [("forward", 4), ("backward", 4)]
    one, _ = passes["blocks1:backward:[[4, 8]]"]
    assert report.fused_operators == 4 * one.fused_operators


def test_another_shape_is_a_new_specialisation(passes: dict) -> None:
    report, _ = passes[AGAIN]
    first, again = report.groups
    assert first.specialisation == 1 and first.respecialises is None
    assert again.specialisation == 2 and again.respecialises == first.id
    assert again.nodes == first.nodes
    assert "(5, 9, " in again.inputs[0]
    assert list(again.guard_misses) == [
        GuardMiss(first.id, 0, "shape", "(4, 8)", "(5, 9)"),
        GuardMiss(first.id, 1, "shape", "(4, 8)", "(5, 9)"),
    ]
    assert in_words(first, [again]) == "input 0 came with shapes (4, 8), (5, 9)"


def test_plans_of_a_trace_that_was_checked_without_gradients_are_not_counted_again(
    passes: dict,
) -> None:
    report, _ = passes[CHECKED]
    rows = [
        (group.phase, group.count, group.specialisation) for group in report.groups
    ]
    assert rows == [("forward", 4, 1), ("backward", 4, 1)]


nvfuser_here = torch.cuda.is_available() and torch.__version__ < "2.2"


@pytest.mark.skipif(
    not nvfuser_here,
    reason="needs a GPU and a torch that has nvFuser (1.12 to 2.1)",
)
def test_nvfuser_instances_are_the_nodes_of_the_graph_api(tmp_path: Path) -> None:
    levels = ">partition:graph_fuser:>>kernel_cache:profiling_graph_executor_impl"
    for case, (report, plans) in run(tmp_path, CASES, levels, "nvfuser").items():
        assert nodes(report) == of_torch(plans), case
