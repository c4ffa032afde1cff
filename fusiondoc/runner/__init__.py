"""Child processes and captures. This file has the facts that fusiondoc remembers
between them.

These are small JSON files in $FUSIONDOC_CACHE or ~/.cache/fusiondoc; and the peak
memory bandwidth to which kernels are compared: given, measured (and remembered),
reported by the driver, or from the table.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Environment
from fusiondoc.captures.trust import user_folder
from fusiondoc.fuser_knobs.catalogue import bandwidth_of
from fusiondoc.model.runs import Peak
from fusiondoc.version import __version__
from fusiondoc.whole_files import read_within


def stamp(path: Path) -> list[int] | None:
    """Size and time of change (nanoseconds) of a file, following links; None if it
    does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


class Cache:
    """One kind of remembered values. A cache that cannot be read or written counts
    as empty."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def get(
        self, key: Any, stamps: Callable[[Mapping[str, Any]], Any]
    ) -> dict[str, Any] | None:
        """The value under ``key`` if its ``stamps`` are still those with which it
        was stored."""
        try:
            entry = json.loads(read_within(self._path(key)))
            value = entry["value"]
            fits = entry["fusiondoc"] == __version__ and entry["stamps"] == stamps(
                value
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if fits and isinstance(value, dict):
            return value
        return None

    def put(self, key: Any, stamps: Any, value: Mapping[str, Any]) -> None:
        """Remember ``value``; another process may do the same at the same time."""
        path = self._path(key)
        entry = {
            "fusiondoc": __version__,
            "key": key,
            "stamps": stamps,
            "value": value,
        }
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=str(path.parent))
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(entry, file)
                Path(temporary).replace(path)
            except OSError:
                Path(temporary).unlink()

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
        return user_folder() / self._kind / f"{digest}.json"


_BANDWIDTH = "bandwidth"


def remember_bandwidth(gpu: str, value: Mapping[str, Any]) -> None:
    """Remember the measured bandwidth of a GPU by its name: ``gb_per_s`` (10^9
    bytes a second) and how it was measured."""
    Cache(_BANDWIDTH).put([gpu], _nothing_to_check(value), value)


def remembered_bandwidth(gpu: str) -> float | None:
    """The measured bandwidth of a GPU by its name, or None. Two interpreters on a
    machine measure the same memory."""
    value = Cache(_BANDWIDTH).get([gpu], _nothing_to_check)
    rate = value.get("gb_per_s") if value is not None else None
    if isinstance(rate, (int, float)) and rate > 0:
        return float(rate)
    return None


def _nothing_to_check(value: Any) -> list[Any]:
    """No stamps: a GPU's memory does not change."""
    return []


def peak_of(
    environment: Environment, kept: Peak | None, given: float | None
) -> Peak | None:
    """The best known peak: given, measured, from the driver, from the table; None
    if the GPU is unknown.

    Args:
        environment: the probe's record of it.
        kept: the peak that ``keep_peak`` wrote to the capture.
    """
    if given is not None:
        return Peak(given, "given")
    if kept is not None:
        return kept
    measured = _remembered(environment.gpu)
    if measured is not None:
        return Peak(measured, "measured")
    by_driver = environment.gpu_memory_gb_per_s
    if by_driver is not None and by_driver > 0:
        return Peak(by_driver, "driver")
    known = bandwidth_of(environment.gpu)
    if known is None:
        return None
    return Peak(known, "table")


def keep_peak(capture: Capture, given: float | None) -> None:
    """Write a given or measured peak into the capture, so that its report is the
    same on another machine."""
    peak = Peak(given, "given") if given is not None else None
    if peak is None:
        measured = _remembered(capture.records.environment.gpu)
        peak = Peak(measured, "measured") if measured is not None else None
    if peak is not None:
        with contextlib.suppress(OSError):
            capture.keep_peak(peak)


def _remembered(gpu: str | None) -> float | None:
    """The bandwidth of a GPU that ``env --measure`` remembered by its name."""
    if gpu:
        return remembered_bandwidth(gpu)
    return None
