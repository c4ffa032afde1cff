"""NNC's own words for what it refuses, all of them, in plain words: against the
strings of torch's libraries, the recordings and a real run with a refusal of every
kind."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.api import parse
from fusiondoc.fusers.nnc.log import CONDITIONS, REMARKS, WRAPPER
from fusiondoc.fusers.nvfuser.log import REFUSALS as REFUSALS_OF_NVFUSER
from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons import Stated
from fusiondoc.model.reasons.stated_words import STATED
from fusiondoc.model.reasons.words import sentence

REFUSALS = FIXTURES / "logs" / "nnc-2.13-refusals.log.xz"
_STATED = re.compile(rb"\[DEBUG tensorexpr_fuser\.cpp:\d+\] Failed cond (.*)")


def in_torch(other_files: bool) -> set[str]:
    """The conditions of the fixture: of tensorexpr_fuser.cpp, or of the other
    files."""
    lines = (FIXTURES / "nnc-conditions.txt").read_text().splitlines()
    conditions = [
        line.partition("  # ") for line in lines if not line.startswith("#")
    ]
    return {text for text, other, _ in conditions if bool(other) is other_files}


def test_the_table_has_every_condition_of_torch_and_no_other() -> None:
    assert {*CONDITIONS, WRAPPER} == in_torch(other_files=False)
    assert {code for code, _ in CONDITIONS.values()} <= set(CODES)
    names = [
        name
        for _, name in (*CONDITIONS.values(), *REFUSALS_OF_NVFUSER.causes.values())
    ]
    assert {*names, *REMARKS.values()} <= set(STATED)
    assert not [
        words for words in STATED.values() if "->" in words or "==" in words
    ]


@pytest.mark.torch
def test_the_installed_torch_has_these_conditions() -> None:
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not library.is_file():
        pytest.skip("no library of that name")
    with (
        library.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        found = {
            one.decode() for one in re.findall(rb"Failed cond ([^\n\0]+)\n", text)
        }
        assert all(text.find(remark) >= 0 for remark in REMARKS)
    assert found == in_torch(other_files=False) | in_torch(other_files=True)


def test_all_lines_of_the_recordings_are_known(recordings: Path) -> None:
    logs = [*recordings.glob("*nnc*/*.log"), *(FIXTURES / "logs").glob("nnc-*.xz")]
    stated = {
        line.decode().strip()
        for log in logs
        for line in _STATED.findall(raw_log.read(log))
    }
    assert len(stated) >= 7
    assert stated <= {*CONDITIONS, WRAPPER}


def test_reasons_of_a_run_with_a_refusal_of_every_kind() -> None:
    report = parse(REFUSALS)
    line = {
        "reductions": 11,
        "remainder": 15,
        "lists": 19,
        "conv2d": 23,
        "matmul": 27,
        "types": 31,
        "erf": 35,
    }
    stated = {
        (row.op, (row.source or "").split(":")[1]): (
            row.reason.code,
            row.reason.text,
        )
        for row in report.unfused
        if row.reason.stated or row.op in ("aten::einsum", "aten::stack")
    }
    assert stated == {
        ("aten::softmax", str(line["reductions"])): (
            "FD211",
            "reductions are off (`nnc_reductions`)",
        ),
        ("aten::sum", str(line["reductions"])): (
            "FD211",
            "reductions are off (`nnc_reductions`)",
        ),
        ("aten::mean", str(line["reductions"])): (
            "FD211",
            "NNC has no lowering for it",
        ),
        ("aten::remainder", str(line["remainder"])): (
            "FD211",
            "NNC has a rule for aten::remainder, but not for this overload (Scalar)",
        ),
        ("aten::einsum", str(line["lists"])): (
            "FD233",
            "NNC has no rule for aten::einsum",
        ),
        ("aten::stack", str(line["lists"])): (
            "FD233",
            "NNC has no rule for aten::stack",
        ),
        ("aten::conv2d", str(line["conv2d"])): (
            "FD215",
            sentence(Stated(REMARKS[b"Params of conv2d are not supported"])),
        ),
        ("aten::matmul", str(line["matmul"])): (
            "FD215",
            sentence(Stated(REMARKS[b"Shapes of matmul inputs are not supported"])),
        ),
        ("aten::add", str(line["types"])): (
            "FD215",
            "NNC does not fuse Half tensors on the CPU",
        ),
        ("aten::mul", str(line["types"])): (
            "FD215",
            "NNC does not fuse Half tensors on the CPU",
        ),
        ("aten::erf", str(line["erf"])): ("FD215", "NNC takes it on the GPU only"),
        ("aten::fmod", "39"): (
            "FD215",
            "NNC takes it of floating-point tensors only, and this one is Int",
        ),
        ("aten::batch_norm", "2898"): (
            "FD219",
            "it is in training mode, and NNC takes it in eval mode only",
        ),
    }


def test_half_is_not_advised_to_half() -> None:
    findings = [
        one for one in parse(REFUSALS).findings if "Half tensors" in one.message
    ]
    assert findings
    assert not [one for one in findings if "half" in (one.advice or "").lower()]


def test_an_unknown_condition_is_shown_as_it_is(tmp_path: Path) -> None:
    log = raw_log.read(REFUSALS).replace(
        b"Failed cond typesAreSupported(node)", b"Failed cond isNew(node) && x == 1"
    )
    path = tmp_path / "run.log"
    path.write_bytes(log)
    rows = [row for row in parse(path).unfused if row.op == "aten::conv2d"]
    assert [row.reason.code for row in rows] == ["FD219"]
    assert (
        rows[0].reason.text
        == "NNC's condition `isNew(node) && x == 1` does not hold"
    )


NUMBERS = FIXTURES / "logs" / "nnc-2.13-refused-numbers.log.xz"
"""``fixtures/logs/refused_numbers.py``: what NNC refuses, and the same as
advised."""

ADVICE = {
    ("aten::remainder", "FD211"): "x - n * torch.floor(x / n)",
    ("aten::div", "FD211"): "torch.floor(x / y)",
    ("aten::pow", "FD211"): "torch.exp(",
    ("aten::clamp", "FD211"): "torch.min(torch.max(x, y), z)",
    ("aten::mul", "FD211"): "float(x.item())",
    ("aten::to", "FD215"): "Compute in float32 on the CPU",
    ("aten::add", "FD215"): "Compute in float32 on the CPU",
    ("aten::erf", "FD215"): "Nothing on the CPU",
    ("aten::max", "FD233"): "no fuser takes it with these arguments",
    ("prim::Loop", "FD229"): "for i in range(n)",
}


def test_what_is_advised_on_refused_arguments_fuses() -> None:
    """The operators of each ``advised_...`` are in groups; constants are no
    barrier."""
    report = parse(NUMBERS)
    source = (FIXTURES / "logs" / "refused_numbers.py").read_text().split("\n")
    advised = {
        number
        for number, line in enumerate(source, 1)
        if next(
            (one for one in reversed(source[:number]) if one.startswith("def ")), ""
        ).startswith("def advised_")
    }
    outside = [
        row
        for row in report.unfused
        if int((row.source or ":0:").split(":")[1]) in advised
    ]
    assert not outside
    assert len(advised) > 10


@pytest.mark.parametrize("op, code", list(ADVICE))
def test_advice_on_refused_arguments_fits_what_was_refused(
    op: str, code: str
) -> None:
    name = op.partition("::")[2]
    found = [
        one
        for one in parse(NUMBERS).findings
        if one.code == code and f"::{name} " in one.message
    ]
    assert found and all(ADVICE[op, code] in (one.advice or "") for one in found)


def test_a_clone_in_order_changes_no_layout() -> None:
    assert "FD408" not in {one.code for one in parse(NUMBERS).findings}
