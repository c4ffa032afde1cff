"""``fusiondoc fix``: whether a changed program computes the same, where it computes
in bfloat16 inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch


class Kept:
    """Stands for the file of records."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []

    def write(self, record: str, **fields: Any) -> None:
        self.rows.append((record, fields))


def before(x: Any) -> Any:
    return ((x.bfloat16() * 1.7 + 20.0) - 20.0).float(), x * 2.0


def kept_in_float32(x: Any) -> Any:
    return ((x.bfloat16().float() * 1.7 + 20.0) - 20.0).bfloat16().float(), x + x


def another(x: Any) -> Any:
    return ((x.bfloat16() * 1.9 + 20.0) - 20.0).float() * 3.0, x * 2.0


def another_beside(x: Any) -> Any:
    return ((x.bfloat16() * 1.7 + 20.0) - 20.0).float(), x * 2.01


def dropped(x: Any) -> Any:
    import torch

    return torch.nn.functional.dropout((x.bfloat16() * 1.7).float(), 0.5), x * 2.0


def dropped_in_float32(x: Any) -> Any:
    import torch

    return torch.nn.functional.dropout(x * 1.7, 0.5), x * 2.0


def doubled(x: Any) -> Any:
    return (x * 2.0).half(), x.float()


def not_doubled(x: Any) -> Any:
    return (x * 2.5).half(), x.float()


def compared(
    folder: Path,
    old: Callable[..., Any],
    new: Callable[..., Any],
    backward: bool = False,
) -> list[dict[str, Any]]:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.changed_program import keep_or_compare_results

    torch.manual_seed(0)
    given = torch.randn(64, 64, requires_grad=backward)
    records: Any = Kept()
    for model, compare in ((old, False), (new, True)):
        wanted = {"file": str(folder / "results.pt"), "compare": compare}
        keep_or_compare_results(
            torch,
            model,
            [lambda: (given,)],
            {"results": wanted, "backward": backward},
            records,
        )
    assert [name for name, _ in records.rows] == ["rounding", "same_results"]
    rows: list[dict[str, Any]] = records.rows[1][1]["results"]
    whats = [
        "output 0",
        "output 1",
        "argument 0 after the call",
        *("grad of argument 0",) * backward,
    ]
    assert [row["what"] for row in rows] == whats
    return rows


def test_roundings_inside(tmp_path: Path) -> None:
    rows = compared(tmp_path, before, kept_in_float32)
    assert all(row["same"] for row in rows)
    assert rows[0]["max_rel"] > 4e-2 and rows[0]["computed_in"] == "bfloat16"
    assert rows[0]["fused_off"] < rows[0]["eager_off"]


def test_another_result(tmp_path: Path) -> None:
    rows = compared(tmp_path, before, another)
    assert [row["same"] for row in rows] == [False, True, True]
    rows = compared(tmp_path, before, another_beside)
    assert [row["same"] for row in rows] == [True, False, True] and rows[1][
        "reference"
    ] == "float64"


def test_random_numbers_have_no_reference(tmp_path: Path) -> None:
    rows = compared(tmp_path, dropped, dropped_in_float32)
    assert not rows[0]["same"] and not rows[0].get("reference")


def test_backward_passes_start_from_the_same_numbers(tmp_path: Path) -> None:
    # Eager starts from float16, and so does the run in float64: float32 alone parts
    # the gradients.
    row = compared(tmp_path, doubled, not_doubled, backward=True)[-1]
    assert not row["same"] and row["eager_off"] < 1e-6 < row["fused_off"]
