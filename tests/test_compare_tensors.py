"""What counts as the same, on tensors that are known to be so or not."""

from __future__ import annotations

from typing import Any

import pytest

from fusiondoc.probe import passes, same_results

torch = pytest.importorskip("torch")


def row(fused: Any, eager: Any, tolerance: float = 1e-4) -> dict[str, Any]:
    largest = same_results.largest_of(torch, [eager])
    result: dict[str, Any] = same_results.compare_values(
        torch, fused, eager, tolerance, largest
    )
    return result


def test_roundings_are_the_same_and_errors_are_not() -> None:
    x = torch.randn(1000)
    assert row(x * (1 + 1e-6), x)["same"]
    off = x.clone()
    off[17] += 0.01 * x.abs().max()
    assert not row(off, x)["same"]
    assert row(off, x)["max_abs"] == pytest.approx(
        0.01 * float(x.abs().max()), rel=1e-3
    )


def test_noise_around_zero_is_no_error_among_larger_values() -> None:
    noise = torch.randn(100) * 1e-8
    assert row(noise, -noise)["same"]
    assert not row(torch.full((3,), 1e-3), torch.zeros(3))["same"]


def test_nan_and_infinities_must_stand_in_the_same_places() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")])
    assert row(x.clone(), x)["same"]
    for place, value in ((0, float("nan")), (1, 1.0), (2, -float("inf"))):
        other = x.clone()
        other[place] = value
        assert not row(other, x)["same"], place
    assert (
        "NaN in 2 elements, eager 1"
        in row(torch.tensor([float("nan")] * 2), torch.tensor([1.0, float("nan")]))[
            "detail"
        ]
    )


def test_shape_dtype_strides() -> None:
    x = torch.randn(4, 6)
    transposed = x.t().contiguous().t()
    other = row(transposed, x)
    assert other["same"] and not other["strides_same"] and other["dtype_same"]
    assert row(x.double(), x)["dtype_same"] is False and row(x.double(), x)["same"]
    assert row(x[:2], x)["same"] is False
    one = torch.randn(4, 1)
    assert row(one.as_strided((4, 1), (1, 77)), one)["strides_same"], (
        "a dimension of one element"
    )
    assert row(torch.empty(0, 3), torch.empty(0, 3))["same"]


def test_whole_numbers_must_be_equal() -> None:
    x = torch.arange(10)
    assert row(x, x, 0.0)["same"] and not row(x + (x == 3), x, 0.0)["same"]
    assert not row(x > 3, x > 4, 0.0)["same"]


def test_complex_values() -> None:
    z = torch.randn(8, dtype=torch.complex64)
    assert row(z.conj().conj(), z)["same"] and not row(z.conj(), z)["same"]


def test_statistics_tell_other_distributions_apart() -> None:
    generator = torch.Generator().manual_seed(3)

    def drop(p: float) -> Any:
        return (torch.rand(4096, generator=generator) > p).float() / (1 - p)

    assert same_results.compare_statistics(torch, drop(0.5), drop(0.5))["same"]
    assert not same_results.compare_statistics(torch, drop(0.3), drop(0.5))["same"]
    assert not same_results.compare_statistics(torch, drop(0.5) * 2, drop(0.5))[
        "same"
    ]
    broken = drop(0.5)
    broken[0] = float("nan")
    assert not same_results.compare_statistics(torch, broken, drop(0.5))["same"]


def test_what_hangs_on_random_numbers() -> None:
    @torch.jit.script
    def function(x, flag: bool):
        a = x * 2.0
        b = torch.rand_like(x) + a
        c = x + 0.0
        if flag:
            c = c + 1.0
        d = x.clone()
        d.bernoulli_(0.5)
        return a, b, c, d, (d + c).sum()

    found = passes.random_flow(torch, function)
    assert found.outputs == [False, True, False, True, True]
    assert found.ops == ["aten::rand_like", "aten::bernoulli"]


def test_random_numbers_inside_control_flow() -> None:
    @torch.jit.script
    def function(x, flag: bool):
        y = x
        if flag:
            y = torch.nn.functional.dropout(x, 0.5, True)
        return y, x + 1

    assert passes.random_flow(torch, function).outputs == [True, False]
    assert (
        passes.random_flow(torch, torch.jit.script(torch.nn.Linear(2, 2))).ops == []
    )


def test_seeded_operators_of_torch_are_known() -> None:
    """Torch tags its operators; the public ones, which a program calls, are all in
    the list."""
    tag = torch.Tag.nondeterministic_seeded
    seeded = set()
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name
        if (
            not name.startswith("aten::")
            or name.startswith("aten::_")
            or name.endswith("_")
        ):
            continue
        packet = getattr(torch.ops.aten, name[6:], None)
        overload = getattr(packet, schema.overload_name or "default", None)
        if overload is not None and tag in overload.tags:
            seeded.add(name)
    missing = seeded - passes.RANDOM
    assert seeded and not missing, sorted(missing)
