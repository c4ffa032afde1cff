"""Kernels of torch.compile in a profile: their times by name, on a GPU and on a
CPU."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.captures.probe_records import Profiled
from fusiondoc.diagnosis.step_time import LAUNCHED, with_step_times
from fusiondoc.parsers.profiler_trace import STEP, read_trace


def event(
    name: str, category: str, begin: float, us: float, **arguments: object
) -> dict[str, Any]:
    where = {"pid": 1, "tid": 7 if category == "kernel" else 1}
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": begin + 0.25,
        "dur": us,
        "args": arguments,
        **where,
    }


def test_launches_without_an_event_of_the_host_are_of_the_kernel_of_that_name() -> (
    None
):
    report = fusiondoc.parse(FIXTURES / "inductor" / "2.11" / "composite")
    kernel = next(
        one for one in report.kernels if len(one.groups) == 1 and one.bytes_moved
    )
    assert kernel.bytes_moved is not None
    events = [
        event(STEP, "user_annotation", 0.0, 1000.0),
        event("aten::sum", "cpu_op", 600.0, 50.0),
        event("cuLaunchKernel", "cuda_driver", 10.0, 5.0, correlation=1),
        event("cuLaunchKernel", "cuda_driver", 20.0, 5.0, correlation=2),
        event(kernel.name, "kernel", 100.0, 40.0, correlation=1),
        event("nobody_knows_it", "kernel", 200.0, 20.0, correlation=2),
    ]
    made = with_step_times(
        report, read_trace(events), Profiled(1, 1.0, device="cuda", gb_per_s=4000.0)
    )
    timed = next(one for one in made.kernels if one.id == kernel.id)
    assert timed.ms is not None and timed.ms.median == pytest.approx(0.04)
    assert timed.gb_per_s is not None
    assert timed.gb_per_s.median == pytest.approx(kernel.bytes_moved / 40e-6 / 1e9)
    group = made.group(kernel.groups[0])
    assert (
        group is not None
        and group.time is not None
        and group.time.ms == pytest.approx(0.04)
    )
    assert made.steps is not None and made.steps.at_bandwidth is not None
    assert made.steps.at_bandwidth.least_ms == pytest.approx(
        kernel.bytes_moved / 4e9, abs=1e-6
    )
    assert [part.ms for part in made.steps.parts if part.what == LAUNCHED] == [
        pytest.approx(0.02)
    ]
