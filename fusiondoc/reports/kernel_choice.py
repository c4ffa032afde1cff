"""The kernels that ``fusiondoc kernels`` shows, in their order; and the dumps of
each, by the names that ``--dump`` uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.errors import UsageError, did_you_mean, nearest
from fusiondoc.fusers import FUSERS
from fusiondoc.model.report import Dump, Kernel, Report
from fusiondoc.numbers import in_natural_order

ENDINGS = {
    "cuda_kernel": ".cu",
    "cuda_full": ".cu",
    "cuda_to_file": ".cu",
    "debug_info": ".cu",
    "nnc_cuda": ".cu",
    "ptx": ".ptx",
    "triton": ".py",
    "cpp": ".cpp",
    "output_code": ".py",
}
"""Endings of the files that ``--save`` writes; all others are ``.txt``."""

CODE = {
    *(name for name, end in ENDINGS.items() if end != ".py"),
    "nnc_ir",
    "nnc_stages",
    "kernel_ir",
}
"""Dumps in CUDA, PTX or a similar language."""

FIGURES: Mapping[str, Sequence[str]] = {
    "launch_param": ("block", "grid"),
    "dump_eff_bandwidth": ("ms", "gb_per_s"),
    "ptxas_verbose": ("registers", "spill_bytes"),
}
"""Dumps that are figures of the table, with the fields that they fill."""


def texts(kernel: Kernel) -> tuple[Dump, ...]:
    """Return all dumps of a kernel, its code first."""
    code = kernel.code
    if code is None or any(dump.text == code for dump in kernel.dumps):
        return kernel.dumps
    return (
        Dump(_dump_of_code(kernel.name, code), code, kernel.evidence),
        *kernel.dumps,
    )


_OF_NAMES = tuple(
    row for fuser in FUSERS.values() for row in fuser.log.code_of_kernels
)


def _dump_of_code(name: str, code: str) -> str:
    for begin, option in _OF_NAMES:
        if name.startswith(begin):
            return option
    # cuda_full has the runtime's headers before the output of cuda_kernel.
    if code.lstrip().startswith(("__global__", "//")):
        return "cuda_kernel"
    return "cuda_full"


def chosen(kernel: Kernel, options: Sequence[str]) -> tuple[Dump, ...]:
    """Return the requested dumps of a kernel, in the order of the request."""
    have = texts(kernel)
    dumps = []
    for option in options:
        for dump in have:
            if dump.option == option:
                dumps.append(dump)
    return tuple(dumps)


def present(kernels: Iterable[Kernel]) -> list[str]:
    """Return the names of all dumps that any kernel has, also as figures."""
    found: dict[str, None] = {}
    for kernel in kernels:
        found.update((dump.option, None) for dump in texts(kernel))
        for option, names in FIGURES.items():
            if any(getattr(kernel, name) is not None for name in names):
                found[option] = None
    return list(found)


def ending(option: str) -> str:
    return ENDINGS.get(option, ".txt")


Key = Callable[[Kernel], "float | None"]

_BY: dict[str, tuple[Key, bool]] = {
    "launches": (lambda k: k.launches, True),
    "time": (lambda k: k.ms.median if k.ms else None, True),
    "bandwidth": (lambda k: k.gb_per_s.median if k.gb_per_s else None, False),
    "peak": (lambda k: k.peak_fraction, False),
    "registers": (lambda k: k.registers, True),
    "spills": (lambda k: k.spill_bytes, True),
    "smem": (lambda k: k.smem_bytes, True),
    "occupancy": (lambda k: k.occupancy, False),
}
"""Column -> (the value to compare, whether the largest comes first): the worst
kernel comes first."""

COLUMNS = ("id", "name", "group", *_BY)


def choose(
    report: Report,
    names: Sequence[str],
    groups: Sequence[str],
    sort: str,
    top: int | None,
) -> tuple[Kernel, ...]:
    """Return the kernels that ``--kernel`` and ``--group`` name, sorted, at most
    ``top`` of them.

    Raises:
        UsageError: there is no such kernel or group.
    """
    kernels = []
    for k in report.kernels:
        if not names or any(_named(k, name) for name in names):
            kernels.append(k)
    for name in names:
        if not any(_named(kernel, name) for kernel in report.kernels):
            raise _unknown_kernel(name, report)
    for group in groups:
        _check_group(group, report)
    if groups:
        wanted = {group.upper() for group in groups}
        kernels = [
            kernel for kernel in kernels if wanted.intersection(kernel.groups)
        ]
    return tuple(_sorted(kernels, sort)[:top])


def narrowed(
    report: Report, kernels: Sequence[Kernel], options: Sequence[str]
) -> Report:
    """Return the report with only these kernels, and only these dumps of each."""
    shown = []
    for kernel in kernels:
        dumps = chosen(kernel, options)
        code = None
        if any(dump.text == kernel.code for dump in dumps):
            code = kernel.code
        # Code that is in no dump is in `code` alone, as in the report of parse.
        own = {dump.option for dump in kernel.dumps}
        shown.append(
            replace(
                kernel,
                code=code,
                dumps=tuple(dump for dump in dumps if dump.option in own),
            )
        )
    ids = {kernel.id for kernel in shown}
    groups = []
    for group in report.groups:
        groups.append(
            replace(
                group, kernels=tuple(one for one in group.kernels if one in ids)
            )
        )
    return replace(report, kernels=tuple(shown), groups=tuple(groups))


def available(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """Return the names of the texts that these kernels have."""
    options: dict[str, None] = {}
    for kernel in kernels:
        for dump in texts(kernel):
            options[dump.option] = None
    return tuple(options)


def _named(kernel: Kernel, name: str) -> bool:
    return name == kernel.name or name.upper() == kernel.id


def _unknown_kernel(name: str, report: Report) -> UsageError:
    if not report.kernels:
        return UsageError(
            f"there is no kernel '{name}': the log shows none",
            "Run it with --dump; see fusiondoc kernels -h",
        )
    known = [*(k.id for k in report.kernels), *(k.name for k in report.kernels)]
    return UsageError(
        f"there is no kernel '{name}'. {_near(name, known)}",
        "fusiondoc kernels lists them.",
    )


def _check_group(name: str, report: Report) -> None:
    known = [group.id for group in report.groups]
    if name.upper() not in known:
        near = _near(name.upper(), known) if known else "The log shows no group."
        raise UsageError(
            f"there is no group '{name}'. {near}",
            "fusiondoc parse lists the groups.",
        )


def _near(name: str, known: Sequence[str]) -> str:
    """Return similar names; if there are many ids and none is similar, the first
    and the last."""
    if len(set(known)) <= 12:
        return did_you_mean(name, known)
    return nearest(name, known) or f"Known: {known[0]} to {known[-1]}."


def _sorted(kernels: list[Kernel], column: str) -> list[Kernel]:
    if column == "id":
        return kernels
    if column == "name":
        return sorted(kernels, key=lambda k: in_natural_order(k.name))
    if column == "group":
        return sorted(
            kernels,
            key=lambda k: (
                not k.groups,
                in_natural_order(k.groups[0] if k.groups else ""),
            ),
        )
    value, largest = _BY[column]
    known = [kernel for kernel in kernels if value(kernel) is not None]
    rest = [kernel for kernel in kernels if value(kernel) is None]
    return sorted(known, key=lambda k: value(k) or 0.0, reverse=largest) + rest
