"""The catalogue of fusible operators against real groups, and against what torch's
own passes take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from running import python

from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import FUSER_OF_KIND, FUSERS, fusible_by, is_fusible
from fusiondoc.fusers.nvfuser import takes as nvfuser

_SECTION = re.compile(
    r"with prim::(\w+Group)_\d+ = graph\(.*?\n(.*?)  return \(", re.DOTALL
)
_OP = re.compile(r"^ +%.* = ((?:aten|prim)::\w+)[\[(]", re.MULTILINE)


def test_every_operator_in_a_recorded_group_is_one_that_its_fuser_takes(
    recordings: Path,
):
    counted: dict[str, int] = {}
    for log in sorted(recordings.glob("torch-*/**/*.log")):
        version = parse_version(log.relative_to(recordings).parts[0].split("-")[1])
        text = re.sub(
            r"(?m)^\[\w+ [\w.]+:\d+\] ", "", log.read_text(errors="replace")
        )
        for kind, body in _SECTION.findall(text):
            fuser = FUSER_OF_KIND[kind].name
            for op in set(_OP.findall(body)) - {"prim::Constant"}:
                assert op in FUSERS[fuser].operators.takes, (log.name, kind, op)
                assert fuser != "nvfuser" or nvfuser.TAKES[op].since <= version, (
                    log.name,
                    op,
                )
                counted[fuser] = counted.get(fuser, 0) + 1
    assert counted["nvfuser"] > 1000 and counted["nnc"] > 50


@pytest.mark.torch
def test_nnc_and_the_legacy_fuser_take_what_the_catalogue_says():
    torch = pytest.importorskip("torch")
    script = Path(__file__).with_name("one_op_graphs.py")
    done = python(script)
    assert done.returncode == 0, done.stdout[-2000:]
    taken = json.loads(done.stdout.splitlines()[-1])
    for fuser in ("nnc", "legacy"):
        assert set(taken[fuser]) <= FUSERS[fuser].operators.takes, (
            set(taken[fuser]) - FUSERS[fuser].operators.takes
        )
        assert len(taken[fuser]) > 50
    if not torch.__version__.startswith("2.13"):
        return
    # Left over: operators that need half precision, a GPU, LLVM or four dimensions.
    assert FUSERS["nnc"].operators.takes - set(taken["nnc"]) == {
        "aten::_autocast_to_full_precision",
        "aten::_convolution",
        "aten::conv2d",
        "aten::erf",
        "aten::erfc",
        "prim::ConstantChunk",
        "prim::ListConstruct",
    }
    assert FUSERS["legacy"].operators.takes - set(taken["legacy"]) == {
        "aten::cat",
        "prim::ConstantChunk",
        "prim::FusedConcat",
    }


def test_versions_and_views():
    assert fusible_by("aten::leaky_relu", "1.12.1") == {"nnc", "onednn"}
    assert "nvfuser" in fusible_by("aten::leaky_relu", "1.13.1")
    assert "nvfuser" not in fusible_by("aten::leaky_relu", "2.13.0")
    assert fusible_by("aten::sort") == frozenset() and not is_fusible("aten::sort")
    assert (
        is_fusible("aten::add")
        and not is_fusible("aten::view")
        and not is_fusible("aten::unsqueeze")
    )
