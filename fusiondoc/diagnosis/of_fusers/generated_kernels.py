"""Finds kernels of the report by their names in a profile: compilers that generate
code use the same names in both.

On a GPU an event of the device has the kernel's name (Triton). On a CPU there is an
event if the code was generated for the profiler (``FuserLog.profile_variables``),
and the name may have a prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from fusiondoc.fusers import keeps_kernel_names, kernel_in_report
from fusiondoc.model.report import Group, Kernel, Report
from fusiondoc.model.runs import Spread
from fusiondoc.parsers.profiler_trace import Trace, Unit


class GeneratedKernels:
    """The kernels of a report that a profile names."""

    def __init__(self, report: Report) -> None:
        self._groups = {}
        for group in report.groups:
            if keeps_kernel_names(group.kind):
                self._groups[group.id] = group
        self._by_name: defaultdict[str, list[Kernel]] = defaultdict(list)
        for kernel in report.kernels:
            if any(id_ in self._groups for id_ in kernel.groups):
                self._by_name[kernel.name].append(kernel)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def named(self, name: str, phase: str | None = None) -> Kernel | None:
        """Return the kernel of that name; None if the report has none, or several
        in the phase."""
        found = self._by_name.get(kernel_in_report(name), [])
        if len(found) > 1 and phase is not None:
            found = [kernel for kernel in found if phase in self.phases(kernel)]
        if len(found) == 1:
            return found[0]
        return None

    def of_unit(self, unit: Unit) -> Kernel | None:
        """Return the kernel that a unit of a profile ran."""
        names = (unit.name, *(launched.name for launched in unit.launched))
        found = (self.named(name, unit.phase) for name in names)
        return next((kernel for kernel in found if kernel is not None), None)

    def only_group(self, kernel: Kernel) -> Group | None:
        """Return the group that a kernel computes; None for a C++ function that
        holds the loops of several groups, whose shares of the time were not
        measured."""
        if len(kernel.groups) == 1:
            return self._groups.get(kernel.groups[0])
        return None

    def phases(self, kernel: Kernel) -> set[str]:
        """Return the phases of its groups."""
        phases = set()
        for id_ in kernel.groups:
            group = self._groups.get(id_)
            if group is not None and group.phase is not None:
                phases.add(group.phase)
        return phases


def with_launches_as_units(trace: Trace, kernels: GeneratedKernels) -> Trace:
    """Return the trace with each launch of a known kernel that no host event
    encloses as a unit of its own: Triton launches kernels without a host event."""
    adopted, rest = [], []
    for launched in trace.elsewhere:
        kernel = kernels.named(launched.name)
        if kernel is None:
            rest.append(launched)
            continue
        phase = next(iter(sorted(kernels.phases(kernel), reverse=True)), "forward")
        adopted.append(
            Unit(
                launched.name,
                True,
                phase,
                0,
                None,
                0.0,
                (launched,),
                launched.event,
            )
        )
    if adopted:
        return replace(trace, units=(*trace.units, *adopted), elsewhere=tuple(rest))
    return trace


def with_kernel_times(
    report: Report, trace: Trace, kernels: GeneratedKernels, on_gpu: bool
) -> Report:
    """Return the report with times of a launch, and GB/s, for the kernels that ran
    in the profile."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for unit in trace.units:
        kernel = kernels.of_unit(unit) if unit.group else None
        if kernel is None:
            continue
        if not on_gpu:
            times[kernel.id].append(unit.host_ms)
        for launched in unit.launched if on_gpu else ():
            if kernels.named(launched.name, unit.phase) == kernel:
                times[kernel.id].append(launched.ms)
    timed = []
    for one in report.kernels:
        timed.append(_timed(one, times[one.id]) if times.get(one.id) else one)
    return replace(report, kernels=tuple(timed))


def _timed(kernel: Kernel, times: Sequence[float]) -> Kernel:
    ordered = sorted(times)
    ms = Spread(ordered[0], ordered[len(ordered) // 2], ordered[-1])
    if kernel.bytes_moved is None or ms.min <= 0:
        return replace(kernel, ms=ms)
    rates = []
    for one in (ms.max, ms.median, ms.min):
        rates.append(kernel.bytes_moved / (one * 1e6))
    return replace(kernel, ms=ms, gb_per_s=Spread(*rates))


def least_ms(
    trace: Trace, kernels: GeneratedKernels, gb_per_s: float | None, on_gpu: bool
) -> tuple[float, float] | None:
    """Return the milliseconds of a step that the bytes of the generated kernels
    need at the memory's bandwidth, and those that these kernels take; None if bytes
    or bandwidth are not known.

    Args:
        gb_per_s: the bandwidth of a large copy on the device.
    """
    needed = taken = 0.0
    for unit in trace.units:
        kernel = kernels.of_unit(unit) if unit.group else None
        if kernel is None or kernel.bytes_moved is None:
            continue
        needed += kernel.bytes_moved / 1e6
        taken += unit.device_ms if on_gpu else unit.host_ms
    if not gb_per_s or not taken:
        return None
    return needed / gb_per_s / trace.steps, taken / trace.steps
