"""Expected groups against real logs: what is found, and what the text says of what
is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, Run
from hypothesis import given
from hypothesis import strategies as st
from thorough import every, least

from fusiondoc.alignment import common, longest_common
from fusiondoc.expectations import GroupExpectation
from fusiondoc.expectations.match import check
from fusiondoc.expectations.near_miss import near_miss
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Group, OpNode, Report
from fusiondoc.workflows.load import report_from

REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
COMPOSITE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"


def outcomes(log: Path, text: str) -> list:
    return check(loads(text, "f.yaml").sections[0], report_from([str(log)]))


def test_the_sentence_of_the_issue() -> None:
    one = outcomes(REJECTS, "groups: [[mul, relu, cumsum]]")[0]
    assert not one.holds
    assert one.text == (
        "expected mul, relu, cumsum; found mul, relu (G1): cumsum is not fused: nvFuser has no parsing rule for"
        " it (FD201), models/c10_rejects.py:4"
    )
    # The raw log says so of that line, and of no multiplication.
    raw = raw_log.read(REJECTS).decode()
    assert re.search(r"aten::cumsum\(.*c10_rejects.py:4:", raw)
    assert (one.near.group.id, one.near.shared, one.near.extra) == (
        "G1",
        ("aten::mul", "aten::relu"),
        (),
    )


def test_what_splits_two_groups_is_named() -> None:
    one = outcomes(REJECTS, "groups: [[relu, sigmoid, add]]")[0]
    assert "found sigmoid, add (G2)" in one.text
    assert (
        "relu is in G1 (models/c10_rejects.py:3), split off by cumsum, which is not fused"
        in one.text
    )


@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        (
            "[relu, mul]",
            "found mul, relu (G1): the same operators are in another order",
        ),
        ("[mul]", "found mul, relu (G1): it also has relu"),
        (
            "[softmax]",
            "found no group with any of them: softmax is nowhere in the graphs of the log",
        ),
        (
            "{ops: [sum, add], phase: backward}",
            "found no backward group with any of them: it is of a backward pass, and this run had none",
        ),
        (
            "{ops: [sum, add], dtype: float16}",
            "its inputs are float32, not float16",
        ),
        (
            "{ops: [sum, add], source: 'c10_rejects.py:3-9'}",
            "it comes from models/c10_rejects.py:10, not from",
        ),
        (
            "{ops: [sum, add], function: f}",
            "its function is unknown: the source file is not available",
        ),
        (
            "{set: [mul, relu, tanh]}",
            "expected mul, relu, tanh in any order; found ",
        ),
        (
            "{ops: [mul, relu], exactly: 2}",
            "expected 2 of mul, relu; found 1 (G1): the next nearest is",
        ),
        (
            "{ops: [add, mul], exactly: 0}",
            "expected no group add, mul; found 1 (G4)",
        ),
        ("{contains: [add, erfinv]}", "expected a group with add, erfinv; found"),
    ],
)
def test_what_is_said_of_a_broken_expectation(expectation: str, said: str) -> None:
    one = outcomes(REJECTS, f"groups:\n- {expectation}\n")[0]
    assert not one.holds
    assert said in one.text


@pytest.mark.parametrize(
    "expectation",
    [
        "[mul, relu]", "[aten::mul, aten::relu]", "{set: [relu, mul]}", "{contains: [relu]}",
        "{ops: [add, mul], dtype: int64}", "{ops: [sum, add], source: c10_rejects.py}",
        "{ops: [sum, add], source: ['models/c10_rejects.py:9-10']}", "{contains: [mul], at_least: 3}",
        "{contains: [mul], exactly: 3, phase: forward}", "{set: [softmax], exactly: 0}",
        "{source: 'c10_rejects.py:7'}",
    ],
)  # fmt: skip
def test_what_holds(expectation: str) -> None:
    assert outcomes(REJECTS, f"groups:\n- {expectation}\n")[0].holds


def test_limits_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "FUSIONDOC_CACHE", str(tmp_path)
    )  # no peak that was measured on this machine
    found = outcomes(
        COMPOSITE,
        "groups: [{contains: [native_layer_norm], min_peak: 40%, tolerance: 10%}, {contains: [add], min_peak: 40%}]\n"
        "number_of_groups: 2\nmax_fallbacks: 0\nmin_coverage: 1\nmin_gb_per_s: 1700\n",
    )  # fmt: skip
    assert [one.holds for one in found] == [True, False, True, True, True, False]
    assert re.search(
        r"K1 kernel1 reaches 3\d\.\d+% of peak, not 40% of peak", found[1].text
    )
    # The slowest kernel by what the log prints of each launch.
    assert re.search(
        r"K4 kernel4 reaches 1,6\d\d GB/s, not 1,700 GB/s", found[-1].text
    )


def test_kernels_bound_by_their_launch_do_not_count_for_the_whole() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
    report = report_from([str(log)], 100_000)
    shares = {kernel.bound: [] for kernel in report.kernels}
    for kernel in report.kernels:
        shares[kernel.bound].append(kernel.peak_fraction)
    others = [
        share
        for bound, some in shares.items()
        if bound != "launch"
        for share in some
    ]
    assert min(shares["launch"]) < min(others)
    limit = f"min_peak: {min(others) * 0.999}\n"
    assert check(loads(limit, "f.yaml").sections[0], report)[0].holds
    slow = f"groups: [{{contains: [native_layer_norm_backward], {limit.strip()}}}]"
    assert not check(loads(slow, "f.yaml").sections[0], report)[
        0
    ].holds  # of a group every kernel counts


def test_fallbacks_and_findings() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    found = outcomes(
        log,
        "max_fallbacks: 0\nfindings: {expect: [FD302, FD301], forbid: [FD3xx, warning], allow: [error, note]}",
    )
    assert [one.holds for one in found[:4]] == [False, True, False, False]
    others = {f.severity for f in report_from([str(log)]).findings} - {
        "error",
        "note",
    }
    assert [one.holds for one in found[4:]] == [not others, not others]
    assert found[0].found != "0" and int(found[0].found.split()[0]) >= 1


def test_nothing_measured_and_nothing_fused() -> None:
    assert (
        "no kernel has a measured share of peak"
        in outcomes(REJECTS, "min_peak: 0.1")[0].text
    )
    log = FIXTURES / "logs" / "nvfuser-2.1.2-unknown-dump-option.log.xz"
    assert not outcomes(log, "max_fallbacks: 0")[0].holds


def test_the_function_and_class_of_the_program(tmp_path: Path) -> None:
    from fusiondoc.expectations.source_lines import names_at
    from fusiondoc.model.source import Source

    file = tmp_path / "model.py"
    file.write_text(
        "class A:\n    def forward(self):\n        x = 1\n        return x\n\n\ndef f():\n    pass\ny = 1\n"
    )
    assert names_at(Source(str(file), 3)) == ("A.forward", "A")
    assert names_at(Source(str(file), 8)) == ("f", "")
    assert names_at(Source(str(file), 9)) == ("", "")
    assert names_at(Source(str(tmp_path / "none.py"), 1)) is None


def test_the_plugin_can_ask_for_a_group_without_a_file() -> None:
    report = report_from([str(REJECTS)])
    near = near_miss(
        report,
        GroupExpectation(("aten::tanh", "aten::mul", "aten::sort")),
        report.groups,
    )
    assert near.found == "tanh, mul (G3)"
    assert [(m.op, m.where, m.row.reason.code) for m in near.missing] == [
        ("aten::sort", "unfused", "FD201")
    ]


OPS = st.lists(st.sampled_from("abc"), max_size=12)


@given(OPS, OPS)
def test_the_longest_common_subsequence(a: list, b: list) -> None:
    pairs = longest_common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert pairs == sorted(pairs) and len({i for i, _ in pairs}) == len(
        {j for _, j in pairs}
    ) == len(pairs)
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    assert len(pairs) == table[-1][-1] <= common(a, b)


def test_every_group_of_every_recording_is_found_by_its_own_operators(
    recordings: Path,
) -> None:
    checked = 0
    for log in every(4, sorted(recordings.glob("torch-*/**/*.log"))[::7]):
        report = report_from([str(log)])
        for group in report.groups[:20]:
            wanted = GroupExpectation(group.ops, phase=group.phase)
            near = near_miss(report, wanted, report.groups)
            assert (
                near.group is not None
                and near.group.ops == group.ops
                and near.why == ""
            )
            checked += 1
    assert checked > least(20)


SPLIT = FIXTURES / "logs"


def test_what_splits_a_group_is_named_in_another_function() -> None:
    """By its line it is not between the two halves."""
    one = outcomes(
        SPLIT / "nnc-2.13-split-helper.log.xz", "groups: [[mul, relu, tanh, add]]"
    )[0]
    assert one.why == (
        "tanh, add are in G2 (models/split_helper.py:11), split off by cumsum, which is not fused:"
        " NNC has no lowering for it (FD211), models/split_helper.py:5"
    )


def test_a_near_miss_is_the_instance_in_the_layer_that_changed() -> None:
    log = SPLIT / "nnc-2.13-split-blocks.log.xz"
    one = outcomes(log, "groups: [{ops: [mul, relu, tanh, add], at_least: 3}]")[0]
    assert one.found == "2 (G1 ×2 in layer.[0,2])"
    # Equal operators are in G1, of other layers; between it and G2 is a linear.
    assert one.why is not None and one.why.startswith(
        "the next nearest is mul, relu (G2 in layer.1): tanh, add are in G3 (models/split_blocks.py:13),"
        " split off by cumsum, which is not fused: "
    )


def test_what_splits_the_forward_splits_its_gradient() -> None:
    backward = "[mul, mul, mul, neg, add, mul, neg, add, mul, mul, mul, add, mul]"
    text = (
        f"groups: [[mul, sigmoid, tanh, mul], {{ops: {backward}, phase: backward}}]"
    )
    for one in outcomes(SPLIT / "nnc-2.13-split-train.log.xz", text):
        assert (
            not one.holds
            and "split off by cumsum, which is not fused: gradients are recorded"
            in one.text
        )
        assert one.text.count("gradients are recorded") == 1


def test_only_what_is_newly_outside_groups_is_listed() -> None:
    log = SPLIT / "nnc-2.13-split-blocks.log.xz"
    text = "modules: [{layer: layer, coverage: 1}]\nnot_fused: [linear]\n"
    share, outside = outcomes(log, text)
    assert (
        share.why
        == "newly outside groups: cumsum (FD211, models/split_blocks.py:12)"
    )
    assert (outside.holds, outside.expected) == (
        False,
        "no operator but linear outside groups",
    )
    assert outside.found == "cumsum (FD211, models/split_blocks.py:12)"
    assert outcomes(log, "not_fused: [linear, cumsum]")[0].holds
    assert not outcomes(log, "not_fused: []")[0].holds


SDPA = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125
        weights = torch.softmax(scores + 1.0, -1)
        return torch.tanh(torch.matmul(weights, v) * 0.5) + x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Attention()
        self.second = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x))
        return torch.relu(y) * 2.0


model = Model()
inputs = (torch.rand(2, 4, 8),)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "* 0.125",
            "/ 8",
            "expected at least 2 of mul, add in forward; found div, add (G1 ×2 in first, second):"
            " mul is nowhere else in the graphs of the log; it also has div",
        ),
        (
            "        scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125\n"
            "        weights = torch.softmax(scores + 1.0, -1)\n"
            "        return torch.tanh(torch.matmul(weights, v) * 0.5) + x\n",
            "        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)\n"
            "        return torch.tanh(y * 0.5) + x\n",
            "expected at least 2 of mul, add in forward; found no other forward group with most of them:"
            " mul, add are nowhere else in the graphs of the log",
        ),
        (
            "return torch.relu(y) * 2.0",
            "z = torch.relu(y)\n        z.mul_(2.0)\n        return z",
            "expected mul, tanh, add, relu, mul in forward; found mul, tanh, add, relu (G3 in second):"
            " mul is there as mul_, which is not fused: it changes its input in place; aten::mul could be fused"
            " (FD230), model.py:28",
        ),
    ],
)
def test_a_near_miss_is_no_group_of_another_expectation(
    old: str, new: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """It named ``mul, tanh, add``, which another line expected and had; its ``mul``
    was that of another group."""
    (tmp_path / "model.py").write_text(SDPA)
    run = ("check", "model.py", "--expect", "f.yaml", "--fuser", "nnc")
    assert fusiondoc(*run, "--update").returncode == 0
    assert old in SDPA
    (tmp_path / "model.py").write_text(SDPA.replace(old, new))
    done = fusiondoc(*run, env={"COLUMNS": "1000"})
    assert done.returncode == 1 and said + "\n" in done.stdout, done.stdout


def group_of(name: str, ops: str, phase: str, line: int = 1) -> Group:
    nodes = tuple(
        OpNode(f"aten::{op}", None, f"model.py:{line}") for op in ops.split()
    )
    whole = report_from([str(REJECTS)]).groups[0]
    return replace(
        whole, id=name, nodes=nodes, phase=phase, instances=whole.instances[:1]
    )


def made_report(*groups: Group, unfused: tuple = ()) -> Report:
    return replace(
        report_from([str(REJECTS)]),
        groups=groups,
        unfused=unfused,
        programs=(),
        findings=(),
    )


def test_a_group_of_the_other_phase_is_no_near_miss_and_its_operators_are_no_reason() -> (
    None
):
    row = report_from([str(REJECTS)]).unfused[0]
    forward = replace(
        row, op="aten::mul", phase="forward", ran=True, user_source="model.py:9"
    )
    report = made_report(
        group_of("G1", "mul relu", "forward"),
        group_of("G2", "neg exp", "backward"),
        unfused=(forward,),
    )
    section = loads(
        "groups: [{ops: [mul, relu, neg], phase: backward}]", "f.yaml"
    ).sections[0]
    (one,) = check(section, report)
    assert one.near.group.id == "G2"
    assert (
        one.why
        == "mul, relu are nowhere in the backward graphs of the log; it also has exp"
    )
    there = replace(forward, phase="backward", user_source="model.py:7")
    (one,) = check(section, replace(report, unfused=(forward, there)))
    assert (
        "mul is not fused" in one.why
        and "model.py:7" in one.why
        and "model.py:9" not in one.why
    )


def test_each_group_is_the_near_miss_of_the_expectation_that_is_most_like_it() -> (
    None
):
    report = made_report(
        group_of("G1", "mul relu", "forward"),
        group_of("G2", "tanh add exp", "forward"),
    )
    text = "groups: [[mul, relu, tanh, add], [mul, relu, sort], [tanh, add, exp, sort]]"
    found = check(loads(text, "f.yaml").sections[0], report)
    assert [one.near.group and one.near.group.id for one in found] == [
        None,
        "G1",
        "G2",
    ]
    assert found[0].text.startswith(
        "expected mul, relu, tanh, add; found no group of its own: mul, relu are in G1 "
    )
    # A loose expectation needs one group of its own: it takes the one that no other
    # lacks.
    text = "groups: [{contains: [mul]}, [mul, relu, sort]]"
    more = made_report(*report.groups, group_of("G3", "mul neg", "forward"))
    loose, strict = check(loads(text, "f.yaml").sections[0], more)
    assert loose.holds and strict.near.group.id == "G1"


def test_an_operator_that_the_file_knows_outside_groups_is_no_reason_from_afar() -> (
    None
):
    """``silu`` became ``hardswish``; the ``sigmoid`` of another line, never fused,
    was called the reason."""
    whole = report_from([str(REJECTS)]).unfused[0]
    far = replace(
        whole,
        op="aten::sigmoid",
        phase="forward",
        ran=True,
        user_source="model.py:40",
        layers=(),
    )
    report = made_report(
        group_of("G1", "mul hardswish", "forward", 13), unfused=(far,)
    )
    text = "groups: [[mul, sigmoid]]\nnot_fused: [sigmoid]\n"
    one = check(loads(text, "f.yaml").sections[0], report)[0]
    assert (
        one.why
        == "sigmoid is nowhere else in the graphs of the log; it also has hardswish"
    )
    beside = replace(far, user_source="model.py:14")
    one = check(
        loads(text, "f.yaml").sections[0], replace(report, unfused=(far, beside))
    )[0]
    assert one.why.startswith("sigmoid is not fused: ") and "model.py:14" in one.why


def test_one_more_of_a_group_can_be_what_is_left_of_a_lost_one() -> None:
    """The first layer and the last one, whose tail was split off, are equal then:
    the reason is at the tail."""
    row = report_from([str(REJECTS)]).unfused[0]
    split = replace(
        row,
        op="aten::cumsum",
        phase="forward",
        ran=True,
        user_source="model.py:5",
        layers=(),
    )
    layers = group_of("G1", "mul relu add", "forward", 4)
    layers = replace(layers, instances=layers.instances * 2)
    report = made_report(
        layers, group_of("G2", "tanh mul", "forward", 6), unfused=(split,)
    )
    text = "groups: [[mul, relu, add], [mul, relu, add, tanh, mul]]"
    first, last = check(loads(text, "f.yaml").sections[0], report)
    assert first.holds and last.found == "mul, relu, add (G1)"
    assert last.why is not None and last.why.startswith(
        "tanh, mul are in G2 (model.py:6), split off by cumsum"
    )
    # As many as are expected are those of the first expectation: none is left.
    text = "groups: [{ops: [mul, relu, add], at_least: 2}, [mul, relu, add, tanh, mul]]"
    first, last = check(loads(text, "f.yaml").sections[0], report)
    assert first.holds and last.near.group is None


GATED = """\
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.gate = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x) + x * 0.5


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Block()
        self.b = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b(self.a(x))
        return torch.tanh(y + 1.0) * torch.sigmoid(x)


model = Model().eval()
inputs = (torch.rand(4, 8),)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "old", "new", "said"),
    [
        (
            ("--fuser", "onednn", "--trace"),
            "F.silu(self.gate(x))",
            "F.hardswish(self.gate(x))",
            "expected linear, sigmoid, mul, mul, add in forward; found linear, hardswish, mul, add (G2 in a):"
            " sigmoid is nowhere else in the graphs of the log; mul is not fused",
        ),
        (
            ("--fuser", "nnc", "--frontend", "aot", "--backward"),
            "torch.tanh(y + 1.0)",
            "torch.tanh(torch.cumsum(y, 0) + 1.0)",
            "expected add, silu, add, mul, mul, add, add, tanh, sigmoid, mul in forward; found add, silu, add,"
            " mul, mul, add (G2): add, tanh, sigmoid, mul are in G3 (model.py:24), split off by cumsum, which"
            " is not fused: NNC has no lowering for it (FD211), model.py:24",
        ),
    ],
    ids=["onednn", "aot"],
)
def test_a_near_miss_under_other_fusers(
    options: tuple, old: str, new: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """The reason was the sigmoid of another line, and the nearest group one of the
    backward pass."""
    run = ("check", "model.py", "--expect", "f.yaml", *options)
    (tmp_path / "model.py").write_text(GATED)
    assert fusiondoc(*run, "--update").returncode == 0
    assert old in GATED
    (tmp_path / "model.py").write_text(GATED.replace(old, new))
    done = fusiondoc(*run, env={"COLUMNS": "1000"})
    assert done.returncode == 1 and said in done.stdout, done.stdout
