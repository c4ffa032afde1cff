"""What the time of the tests depends on: where nothing differs, children are forks
(``warm_torch.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest
import warm_torch
from running import log_of, run_target, write

PROGRAM = (
    "import gc\nprint('objects of before the fork:', gc.get_freeze_count() > 0)\n"
)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("variable", "forked"),
    [
        (
            "TORCHINDUCTOR_CACHE_DIR",
            True,
        ),  # torch._dynamo writes it where it is imported
        ("CUDA_MODULE_LOADING", True),
        pytest.param(
            "TORCH_SHOW_CPP_STACKTRACES", False, marks=pytest.mark.nightly
        ),
    ],
)
def test_a_child_is_a_fork_unless_torch_reads_what_differs(
    variable: str, forked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if warm_torch.server() is None:
        pytest.skip("children are new processes here")
    monkeypatch.setenv(variable, "0")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "program.py", PROGRAM)
    capture, error = run_target(tmp_path, "program.py", script=True)
    assert error is None and f"objects of before the fork: {forked}" in log_of(
        capture
    )
