"""One group against one expectation: which of its conditions fail, and why."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from fusiondoc.expectations.expectation import GroupExpectation, Speed
from fusiondoc.expectations.origins import is_in, line_of, named, names_at, near
from fusiondoc.model.report import Group, Kernel

DTYPE_OF = {
    "Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128", "Char": "int8", "Short": "int16",
    "Int": "int32", "Long": "int64", "Byte": "uint8", "Bool": "bool",
}  # fmt: skip
"""Scalar types as TorchScript prints them -> torch dtypes (c10/core/ScalarType.h, torch 2.1)."""


class Mismatch(NamedTuple):
    """A condition that a group does not meet."""

    what: str
    """"operators", "phase", "source", "function", "module", "dtype" or "speed"."""
    text: str
    """What it is instead: ``it is in the backward phase``."""


def mismatches(group: Group, wanted: GroupExpectation, kernels: Mapping[str, Kernel]) -> list[Mismatch]:
    """The conditions that the group does not meet; none if it is as expected."""
    found = []
    if not same_operators(group.ops, wanted):
        found.append(Mismatch("operators", "its operators differ"))
    if wanted.phase is not None and group.phase != wanted.phase:
        is_ = f"is {group.phase}" if group.phase else "is not in the log"
        found.append(Mismatch("phase", f"its phase {is_}, not {wanted.phase}"))
    found += [Mismatch("source", text) for text in _source(group, wanted)]
    found += [Mismatch("function", text) for text in _names(group, wanted)]
    found += [Mismatch("dtype", text) for text in _dtype(group, wanted)]
    found += [
        Mismatch("speed", text)
        for text in too_slow([kernels[k] for k in group.kernels if k in kernels], wanted.speed)
    ]
    return found


def same_operators(ops: tuple[str, ...], wanted: GroupExpectation) -> bool:
    """Whether the operators of a group are the expected ones, in the sense of ``wanted.order``."""
    if not wanted.ops:
        return True
    if wanted.order == "set":
        return set(ops) == set(wanted.ops)
    if wanted.order == "contains":
        rest = iter(ops)
        return all(op in rest for op in wanted.ops)
    return ops == wanted.ops


def too_slow(kernels: list[Kernel], speed: Speed) -> list[str]:
    """What is said of kernels below the limits; of none of them measured too, for then nothing is known."""
    found = []
    for key, limit in (("min_peak", speed.peak), ("min_gb_per_s", speed.gb_per_s)):
        if limit is None:
            continue
        measured = [
            (value, k.id, k.name) for k in kernels for value in [speed_of(k, key)] if value is not None
        ]
        if not measured:
            what = "bandwidth" if key == "min_gb_per_s" else "share of peak"
            found.append(f"no kernel has a measured {what}")
            continue
        value, id_, name = min(measured)
        if value < limit * (1 - speed.tolerance):
            less = f" (less {speed.tolerance:.0%})" if speed.tolerance else ""
            found.append(f"{id_} {name} reaches {show_speed(value, key)}, not {show_speed(limit, key)}{less}")
    return found


def speed_of(kernel: Kernel, key: str) -> float | None:
    """What ``min_peak`` or ``min_gb_per_s`` is held against: the median."""
    if key == "min_peak":
        return kernel.peak_fraction
    return kernel.gb_per_s.median if kernel.gb_per_s is not None else None


def show_speed(value: float, key: str) -> str:
    """``38.4% of peak`` or ``1,850 GB/s``."""
    return f"{percent(value)} of peak" if key == "min_peak" else f"{value:,.0f} GB/s"


def percent(share: float) -> str:
    """``38%``, ``90.909%``: so exact that what differs looks different."""
    return f"{share * 100:.3f}".rstrip("0").rstrip(".") + "%"


def dtypes(group: Group) -> tuple[str, ...]:
    """The types that ``dtype`` is held against: of floating-point and complex inputs, else of all tensors."""
    printed = [match.group(1) for match in (re.match(r"(\w+)\(", text) for text in group.inputs) if match]
    types = [DTYPE_OF[name] for name in printed if name in DTYPE_OF]
    return tuple(t for t in types if "float" in t or "complex" in t) or tuple(types)


def _source(group: Group, wanted: GroupExpectation) -> list[str]:
    lines = [line_of(node) for node in group.nodes]
    missed = [source for source in wanted.source if not any(is_in(line, source) for line in lines)]
    known = sorted({near(line) for line in lines if line is not None})
    where = "comes from " + _few(known) if known else "has no line that the log tells"
    return [f"it {where}, not from {source}" for source in missed]


def _names(group: Group, wanted: GroupExpectation) -> list[str]:
    if wanted.function is None and wanted.module is None:
        return []
    lines = [line for line in map(line_of, group.nodes) if line is not None]
    known = [names for names in map(names_at, dict.fromkeys(lines)) if names is not None]
    if not known:
        return ["its function is unknown: the source file is not available, or the log names no line"]
    found = []
    for what, index, name in (("function", 0, wanted.function), ("class", 1, wanted.module)):
        if name is not None and not any(named(names[index], name) for names in known):
            there = sorted({names[index] for names in known if names[index]})
            found.append(
                f"it comes from {what} {_few(there)}, not {name}" if there else f"it is in no {what}"
            )
    return found


def _dtype(group: Group, wanted: GroupExpectation) -> list[str]:
    if not wanted.dtype:
        return []
    types = dtypes(group)
    if not types:
        return ["the log does not contain its types"]
    if set(types) <= set(wanted.dtype):
        return []
    return [f"its inputs are {', '.join(sorted(set(types)))}, not {' or '.join(wanted.dtype)}"]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
