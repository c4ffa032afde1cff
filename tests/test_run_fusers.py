"""Every fuser that this torch has makes its groups in a run, by what torch's own
graph says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from running import log_of, records_of, run_target, write

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

MODEL = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = self.inner(x)
            return (y * x + y).relu() * y

    model = Model().eval()
    inputs = (torch.ones(4, 8),)
"""

COUNT = """
    import atexit
    import torch

    @atexit.register
    def count():
        graph = torch._C._last_executed_optimized_graph()
        for kind in ("TensorExprGroup", "oneDNNFusionGroup", "FusionGroup", "CudaFusionGroup"):
            print("COUNT", kind, len(list(graph.findAllNodes("prim::" + kind))))
"""


def run_under(
    folder: Path, fuser: str
) -> tuple[dict[str, int], str, dict[str, object]]:
    """Groups by kind in torch's own last plan, the log, and the probe's word on the
    fuser."""
    write(folder, "user.py", MODEL + COUNT)
    capture, error = run_target(folder, "user.py", fuser=fuser)
    assert error is None, error
    log = log_of(capture)
    counts = {
        kind: int(number)
        for kind, number in re.findall(r"^COUNT (\w+) (\d+)$", log, re.M)
    }
    return counts, log, records_of(capture, "fuser")[-1]


@pytest.mark.parametrize(
    ("fuser", "kind"),
    [("nnc", "TensorExprGroup"), ("onednn", "oneDNNFusionGroup")],
)
def test_the_fuser_that_was_asked_for_works(
    tmp_path: Path, fuser: str, kind: str
) -> None:
    if torch.cuda.is_available():
        pytest.skip("written for the CPU")
    counts, log, said = run_under(tmp_path, fuser)
    assert counts[kind] > 0
    assert not any(
        number
        for other, number in counts.items()
        if other not in (kind, "CudaFusionGroup")
    )
    # The variables that were set make the log show those groups.
    assert re.search(rf"^\[DUMP [a-z_]+\.cpp:\d+\] .* = prim::{kind}_\d", log, re.M)
    assert (
        said["requested"] == said["effective"] == fuser
        and said["live"] is True
        and said["why"]
    )


def test_none_fuses_nothing(tmp_path: Path) -> None:
    counts, log, said = run_under(tmp_path, "none")
    assert not any(counts.values()) and "Optimized Graph" in log
    assert said["effective"] == "none"


def test_auto_says_what_it_chose_and_why(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("nvFuser may work here")
    counts, _, said = run_under(tmp_path, "auto")
    assert counts["TensorExprGroup"] == 1
    assert (
        said["requested"] == "auto"
        and said["effective"] == "nnc"
        and said["live"] is True
    )
    assert "nvFuser" in str(said["why"])


def test_the_example_is_one_group(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parent.parent / "examples" / "bias_gelu.py"
    (tmp_path / "user.py").write_text(
        example.read_text("utf-8") + textwrap.dedent(COUNT)
    )
    capture, error = run_target(tmp_path, "user.py")
    assert error is None, error
    assert re.findall(r"^COUNT TensorExprGroup (\d+)$", log_of(capture), re.M) == [
        "1"
    ]
    assert len(records_of(capture, "iteration")) == 5
