"""How fast a folder of TORCH_TRACE is read: MB/s of processor time, and peak
memory.

Makes a folder of about --megabytes of the traces under fixtures/inductor, as a
large run writes it: most of the bytes are events for a profile, and each compiled
frame has a number of its own.

    python benchmarks/trace_speed.py --megabytes 200 --graphs 400
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRACES = sorted(
    (ROOT / "fixtures" / "inductor").glob("*/*/dedicated_log_torch_trace_*.xz")
)
FRAME = re.compile(rb'"frame_id": (\d+)')


def event(number: int) -> bytes:
    """A record of the kind that most of a trace is made of."""
    payload = {
        "name": f"pass_{number % 97}",
        "ts": 1.7e15 + number,
        "args": {"compile_id": f"{number}/0"},
    }
    payload.update(cat="dynamo_timed", tid=0, pid=0, ph="B" if number % 2 else "E")
    text = json.dumps(payload, indent=0).replace("\n", "\n\t").encode()
    head = b'V1124 15:01:14.936000 595 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0, '
    return (
        head
        + b'"frame_compile_id": 0, "attempt": 0, "has_payload": "0f0f"}\n\t'
        + text
        + b"\n"
    )


def write(folder: Path, megabytes: int, graphs: int) -> int:
    """Write the folder; its bytes."""
    traces = [lzma.decompress(path.read_bytes()) for path in TRACES]
    size = number = 0
    with (folder / "dedicated_log_torch_trace_made.log").open("wb") as file:
        for index in range(graphs):
            own = b'"frame_id": %d' % index
            size += file.write(FRAME.sub(own, traces[index % len(traces)]))
            while size < megabytes * 1_000_000 * (index + 1) // graphs:
                size += file.write(event(number))
                number += 1
    return size


def read(folder: str) -> None:
    """Read the folder, and print the seconds of the processor, MiB at most, and
    graphs."""
    from fusiondoc.parsers.lines.log_files import find_logs
    from fusiondoc.parsers.read import read_logs

    start = time.process_time()
    compilation = read_logs(find_logs([folder]))[1].compilation
    taken = time.process_time() - start
    assert compilation is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([taken, peak, len(compilation.graphs)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument(
        "--graphs",
        type=int,
        default=400,
        help="traces of small programs among them",
    )
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), given.megabytes, given.graphs)
        command = [sys.executable, __file__, "--read", folder]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=ROOT
        )
        taken, peak, graphs = json.loads(done.stdout)
        speed = size / 1e6 / taken
        print(
            f"{size / 1e6:.0f} MB, {graphs} graphs: {taken:.2f} s, {speed:.0f} MB/s, {peak:.0f} MiB"
        )


if __name__ == "__main__":
    main()
