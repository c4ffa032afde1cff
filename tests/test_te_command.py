"""`diagnose --frontend te` without Transformer Engine, and reports of captures that were made with it."""

from __future__ import annotations

from pathlib import Path

from command_line import Run

PROGRAM = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"


def test_without_transformer_engine_the_status_is_4_and_says_what_to_install(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(PROGRAM, encoding="utf-8")
    done = fusiondoc("diagnose", "model.py", "--frontend", "te", cwd=tmp_path)
    assert done.returncode == 4 and done.stdout == ""
    assert "cannot import transformer_engine.pytorch.ops" in done.stderr
    assert "pip install" in done.stderr and "Traceback" not in done.stderr
