"""Sources and dumps of kernels are packed in a report, and nobody who reads them can tell."""

from __future__ import annotations

import copy
import dataclasses
import lzma
import pickle
from pathlib import Path

import pytest
from conftest import ROOT

from fusiondoc.model.packed_text import PackedText, replace
from fusiondoc.model.report import Dump, Kernel, Report
from fusiondoc.reports.json_format import render
from fusiondoc.workflows.load import report_from

SOURCE = "__global__ void kernel1(Tensor<float, 1> T0) {\n" + "  T0[0] = 1;\n" * 100 + "}"


def kernel(code: str | None) -> Kernel:
    dump = Dump("ptx", code or "")
    return Kernel("K1", "kernel1", (), 1, None, None, None, None, None, None, None, None, code, dumps=(dump,))


@pytest.fixture
def packed() -> Kernel:
    return kernel(PackedText(SOURCE.encode()).as_field)


def test_a_packed_text_reads_as_a_text(packed: Kernel) -> None:
    plain = kernel(SOURCE)
    assert packed.code == packed.dumps[0].text == SOURCE
    assert packed == plain
    assert hash(packed) == hash(plain)
    assert repr(packed) == repr(plain)
    assert dataclasses.asdict(packed) == dataclasses.asdict(plain)
    for made in (copy.copy(packed), copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert made == plain
        assert isinstance(vars(made)["code"], PackedText)
    with pytest.raises(dataclasses.FrozenInstanceError):
        packed.code = ""  # type: ignore[misc]
    assert kernel(None).code is None
    assert str(PackedText(b"a \xff")) == "a \ufffd"
    with pytest.raises(TypeError, match="text"):
        Dump("ptx")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="text"):
        _ = Dump.__new__(Dump).text


def test_a_changed_kernel_holds_its_text_as_before(packed: Kernel) -> None:
    changed = replace(packed, launches=3)
    assert vars(changed)["code"] is vars(packed)["code"]
    assert changed == dataclasses.replace(packed, launches=3)
    assert replace(packed, code="x").code == "x"


@pytest.fixture
def report(tmp_path: Path) -> Report:
    log = tmp_path / "a.log"
    name = ROOT / "fixtures" / "kernels" / "nnc-2.1-cuda.log.xz"
    log.write_bytes(lzma.decompress(name.read_bytes()))
    return report_from([str(log)], peak=1555.0)


def test_no_text_is_unpacked_but_by_who_reads_it(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [vars(one)["code"] for one in report.kernels if one.code is not None]
    held += [vars(dump)["text"] for one in report.kernels for dump in one.dumps]
    assert len(held) > 10
    assert {type(one) for one in held} == {PackedText}
    unpacked: list[PackedText] = []
    real = PackedText.__str__

    def text(one: PackedText) -> str:
        unpacked.append(one)
        return real(one)

    monkeypatch.setattr(PackedText, "__str__", text)
    render(report)
    assert len(unpacked) == len(held)
    assert {vars(one)["code"] for one in report.kernels} <= {*held, None}
