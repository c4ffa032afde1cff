"""Reasons in logs of models that nobody here wrote, each judged against the printed graph."""

from __future__ import annotations

from functools import lru_cache

import pytest
from conftest import FIXTURES

from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.model.report import Report, Unfused
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs


@lru_cache(maxsize=None)
def report(name: str) -> Report:
    path = FIXTURES / "foreign" / f"{name}.nvfuser.log.xz"
    return read_logs(find_logs([str(path)]), work_out=Reasons())[0]


def rows(name: str, op: str, code: str) -> list[Unfused]:
    return [row for row in report(name).unfused if row.op == op and row.reason.code == code]


def test_each_node_has_the_reason_of_its_own_place() -> None:
    """23 batch norms of one line of torch/nn/functional.py: what stands after them is not the same."""
    found = rows("mobilenet_v3.trace.train", "aten::batch_norm", "FD231")
    first = {row.reason.text.split(": ")[1].split(" (")[0] for row in found}
    assert first == {"aten::hardswish_", "aten::relu_", "aten::_convolution", "aten::add_"}
    assert len({(row.source, row.phase) for row in found}) == 1
    counts = {row.reason.text.split(": ")[1].split(" (")[0]: row.count for row in found}
    assert counts == {"aten::hardswish_": 18, "aten::relu_": 5, "aten::_convolution": 1, "aten::add_": 10}


def test_what_can_be_changed_is_named_before_what_cannot() -> None:
    for row in rows("mobilenet_v3.trace.train", "aten::batch_norm", "FD231"):
        if "hardswish_" in row.reason.text:
            changeable, fixed = row.reason.text.split("; ")
            assert "after it changes its input in place" in changeable
            assert "aten::_convolution" in fixed


@pytest.mark.parametrize(
    ("log", "op", "text"),
    [
        (
            "gpt2.trace.eval",
            "aten::to",
            "it names a device; nvFuser has a rule only for aten::to with a dtype alone",
        ),
        ("gpt2.trace.eval", "aten::matmul", "nvFuser has no parsing rule for it"),
    ],
)
def test_which_condition_of_its_rule_a_node_does_not_meet(log: str, op: str, text: str) -> None:
    assert {row.reason.text for row in rows(log, op, "FD201")} == {text}


def test_the_view_that_nvfuser_leaves_out_is_the_barrier() -> None:
    """x @ w + b of a Conv1D is shaped back by a view, and behind that stands a group."""
    (row,) = rows("gpt2.trace.eval", "aten::add", "FD227")
    assert row.count == 12
    assert "aten::view (" in row.reason.text and "a view that nvFuser takes into no group" in row.reason.text


def test_a_chunk_between_an_add_and_its_group() -> None:
    (row,) = rows("lstm_cells.trace.eval", "aten::add", "FD227")
    assert row.reason.text.startswith("prim::ConstantChunk (")


def test_no_text_names_a_value_or_a_layer() -> None:
    """Equal layers give one row, whatever their values are called."""
    for name in ("bert.trace.eval", "vit.trace.eval", "mobilenet_v3.trace.train", "convnext.script.train"):
        for row in report(name).unfused:
            assert "%" not in row.reason.text and "__module" not in row.reason.text


def test_the_reserve_of_a_batch_norm_is_no_reason() -> None:
    """Its Byte tensor is thrown away by nvFuser (partition.cpp, checkOutputTensorTypes)."""
    for name in ("mobilenet_v3.trace.train", "resnet18.trace.eval"):
        assert not rows(name, "aten::_batch_norm_impl_index", "FD223")
        assert not rows(name, "aten::_batch_norm_impl_index_backward", "FD223")


def test_the_counter_of_a_batch_norm_is_no_loss() -> None:
    texts = {row.reason.text for row in rows("resnet18.trace.eval", "aten::add_", "FD226")}
    assert texts <= {"it counts the batches that a batch norm has seen: one number, nothing to save"}
    assert not any(
        "batchnorm.py" in (row.source or "")
        for row in report("mobilenet_v3.trace.train").unfused
        if row.reason.code == "FD230"
    )
