"""PYTORCH_JIT_LOG_LEVEL: what torch makes of a value, what is refused, how two are
merged."""

from __future__ import annotations

import re

import pytest
from running import python_apart

from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs.checks import (
    check_log_level,
    log_level_notes,
    merge_log_levels,
    parse_log_level,
)

_FUSE = """
import os, sys, torch
torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
for value in sys.argv[1:]:
    graph = torch._C.parse_ir('''graph(%x : Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu)):
      %y : Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu) = aten::neg(%x)
      %z : Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu) = aten::neg(%y)
      return (%z)
    ''')
    torch._C._jit_set_logging_option(value)
    torch._C._jit_pass_fuse_tensorexprs(graph)
    os.write(2, b"<end>")
"""

_VALUES = (
    "tensorexpr_fuser",
    "other:>>tensorexpr_fuser.cpp",
    ">tensorexpr_fuser",
    "tensorexpr_fuser:>>tensorexpr_fuser",
    "graph_fuser,tensorexpr_fuser",
    "passes/tensorexpr_fuser",
)

_PRINTED = ({"DUMP"}, {"DUMP", "UPDATE"}, {"DUMP", "UPDATE", "DEBUG"})


@pytest.mark.torch
def test_values_are_read_as_torch_reads_them():
    pytest.importorskip("torch")
    done = python_apart(*_VALUES, code=_FUSE)
    for value, text in zip(_VALUES, done.stderr.split("<end>")):
        wished = [
            wish.level
            for wish in parse_log_level(value)
            if wish.name == "tensorexpr_fuser"
        ]
        expected = _PRINTED[wished[0]] if wished else set()
        assert (
            set(re.findall(r"^\[(\w+) tensorexpr_fuser\.cpp", text, re.MULTILINE))
            == expected
        ), value
        if not expected:
            with pytest.raises(UsageError):
                check_log_level(value)


@pytest.mark.parametrize(
    ("value", "write"),
    [
        ("graph_fuser,>partition", "graph_fuser:>partition"),
        (" graph_fuser", "graph_fuser"),
        ("graph_fuser: >partition", "graph_fuser:>partition"),
        (">>torch/csrc/jit/codegen/cuda/graph_fuser.cpp", ">>graph_fuser"),
    ],
)
def test_a_value_that_prints_nothing_gets_the_right_spelling(
    value: str, write: str
):
    with pytest.raises(UsageError) as error:
        check_log_level(value, "2.0.1")
    assert error.value.hint == f"Write PYTORCH_JIT_LOG_LEVEL='{write}'"
    check_log_level(write, "2.0.1")


def test_unknown_files_and_files_of_other_versions_are_refused():
    with pytest.raises(UsageError, match="Did you mean 'tensorexpr_fuser'"):
        check_log_level(">>tensorexpr_fusor")
    with pytest.raises(
        UsageError, match=r"torch 1\.12 to 2\.1, not in torch 2\.13"
    ):
        check_log_level(">partition", "2.13.0")
    with pytest.raises(UsageError, match=r"not in torch 1\.11"):
        check_log_level(">partition", "1.11.0")


def test_notes_name_what_has_no_effect():
    assert log_level_notes("partition:graph_fuser:>graph_fuser", "2.0") == (
        "'partition' prints nothing: partition needs '>partition'.",
        "'>graph_fuser' is ignored: torch takes the first 'graph_fuser'.",
    )
    assert log_level_notes(">partition:>>graph_fuser", "2.0") == ()


@pytest.mark.parametrize(
    ("user", "needed", "merged", "notes"),
    [
        ("", "a:>b", "a:>b", 1),
        ("a", "a", "a", 0),
        (">>a", "a", ">>a", 0),
        (">>>>a", ">>a", ">>a", 0),
        ("a:mine", ">>a:b", ">>a:mine:b", 2),
        ("a:>>a", "a", "a", 0),
        ("a.cpp", ">a", ">a", 1),
    ],
)
def test_merging_keeps_the_higher_level_and_the_users_files(
    user: str, needed: str, merged: str, notes: int
):
    assert merge_log_levels(user, needed)[0] == merged
    assert len(merge_log_levels(user, needed)[1]) == notes
