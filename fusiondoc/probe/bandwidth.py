"""Measures the speed of copies in the GPU's memory."""

from __future__ import annotations

from typing import Any

from . import CANNOT_RUN, Refused, first_line

_MOST_BYTES = 1 << 30
"""Bytes far beyond every cache (50 MB of L2 on an H200)."""
_COPIES = 20
_WARM_UP = 3


def measured_bandwidth(torch: Any) -> dict[str, Any]:
    """``gpu``, ``gb_per_s`` (10^9 bytes read plus written in a second, of the
    median copy) and ``copied_bytes``.

    Raises Refused (status 4) without a GPU, or with too little of its memory free
    to outgrow its caches.
    """
    if not torch.cuda.is_available():
        raise Refused(
            "bandwidth",
            "no GPU to measure: torch %s sees no CUDA device here"
            % torch.__version__,
            "Run it on the machine with the GPU and a CUDA build of torch (--python), or give the figure to"
            " a report: --peak GB_PER_S.",
            CANNOT_RUN,
        )
    try:
        size = min(_MOST_BYTES, torch.cuda.mem_get_info()[0] // 4) // 512 * 512
        if size < _MOST_BYTES // 8:
            raise Refused(
                "bandwidth",
                "too little of the GPU's memory is free to measure it (%d MB)"
                % (size * 4 // 10**6),
                "End what else runs on it, or give the figure to a report: --peak GB_PER_S.",
                CANNOT_RUN,
            )
        return dict(
            _copies(torch, size),
            gpu=torch.cuda.get_device_name(torch.cuda.current_device()),
        )
    except RuntimeError as error:
        raise Refused(
            "bandwidth",
            "the GPU cannot copy: %s" % first_line(error),
            None,
            CANNOT_RUN,
        ) from None


def _copies(torch: Any, size: int) -> dict[str, Any]:
    source = torch.empty(size, dtype=torch.uint8, device="cuda").zero_()
    target = torch.empty_like(source)
    for _ in range(_WARM_UP):
        target.copy_(source)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(_COPIES + 1)]
    for number, mark in enumerate(marks):
        if number:
            target.copy_(source)
        mark.record()
    torch.cuda.synchronize()
    times = []
    for before, after in zip(marks, marks[1:]):
        times.append(before.elapsed_time(after))
    times.sort()
    milliseconds = times[len(times) // 2]
    return {
        "gb_per_s": round(2.0 * size / (milliseconds * 1e6), 1),
        "copied_bytes": size,
    }
