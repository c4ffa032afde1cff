"""Recordings of torch.compile that lack something, and errors of it: what is shown, and what is missing."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

from command_line import Run
from conftest import FIXTURES

from fusiondoc.fusers.inductor.break_texts import line_of_compiler_error

COMPOSITE = FIXTURES / "inductor" / "2.11" / "composite"

ERROR = """
torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call

from user code:
   File "/home/user/model.py", line 4, in model
    def model(x): return boom(x.sin()) + 1
                         ^^^^^^^^^^^^^^^^^
  File "/env/lib/python3.11/site-packages/torch/_library/custom_ops.py", line 863, in __call__
    return self._opoverload(*args, **kwargs)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
"""Of torch 2.13, for a custom operator without a fake implementation."""


def test_the_line_of_an_error_is_the_programs_and_not_torchs() -> None:
    assert line_of_compiler_error(ERROR) == "/home/user/model.py:4"
    of_torch_alone = ERROR.replace("/home/user/model.py", "/env/lib/python3.11/site-packages/torch/nn/a.py")
    assert (line_of_compiler_error(of_torch_alone) or "").endswith("custom_ops.py:863")
    assert line_of_compiler_error("RuntimeError: no traceback") is None


def test_a_trace_without_code_says_so(fusiondoc: Run, tmp_path: Path) -> None:
    (path,) = COMPOSITE.glob("dedicated_log_torch_trace_*.xz")
    records = re.split(r"(?m)^(?=V\d)", lzma.decompress(path.read_bytes()).decode())
    kept = [record for record in records if "inductor_output_code" not in record.partition("\n")[0]]
    assert len(kept) == len(records) - 2
    (tmp_path / "trace.log").write_text("".join(kept), "utf-8")
    done = fusiondoc("parse", tmp_path / "trace.log", "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["coverage"]["unknown"]
    shown = fusiondoc("parse", tmp_path / "trace.log", "--summary").stdout
    assert "unknown: no code is known that torch.compile generated" in shown
    found = {one["code"]: one for one in report["findings"]}
    assert found["FD923"]["message"].startswith("The log has no generated code")
    assert "TORCH_TRACE=" in found["FD923"]["advice"]


def test_texts_of_a_later_torch_are_counted_and_shown(fusiondoc: Run, tmp_path: Path) -> None:
    log = lzma.decompress((COMPOSITE / "log.xz").read_bytes()).decode()
    later = log.replace("no shared data", "a text of a later torch")
    assert later != log
    (tmp_path / "later.log").write_text(later, "utf-8")
    report = json.loads(fusiondoc("parse", tmp_path / "later.log", "--format", "json").stdout)
    others = [one for one in report["boundaries"] if one["cause"]["code"] == "FD278"]
    assert others and all("a text of a later torch" in one["cause"]["text"] for one in others)
    assert "FD924" in {one["code"] for one in report["findings"]}
