"""How fast logs are read: MB/s and peak memory of ``fusiondoc`` beside simpler readers of the same bytes.

Makes two logs out of the recordings, each of about --megabytes: one repeats them, in the other every copy has
value names of its own, so that no two graphs are equal. Each reader runs in a process of its own.

    python benchmarks/parse_speed.py --recordings FOLDER --megabytes 1000
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = re.compile(rb"%(?!kernel)([A-Za-z0-9_.]+)")
"""Of values; ``%kernel {`` begins a dump."""

READERS = {
    "wc -l": "wc",
    "bare line loop": "loop",
    "fusiondoc (to the report model)": "fusiondoc",
    "torch extract_ir": "extract_ir",
}


def make_log(path: Path, recordings: list[bytes], megabytes: int, rename: bool) -> None:
    """Write about ``megabytes`` MB of recordings; with ``rename`` every copy has its own value names."""
    written = 0
    copy = 0
    with path.open("wb") as out:
        while written < megabytes * 1_000_000:
            for data in recordings:
                written += out.write(NAMES.sub(rb"%%\1.%d" % copy, data) if rename else data)
                if written >= megabytes * 1_000_000:
                    break
            copy += 1


def read(reader: str, path: Path) -> None:
    """What the child does."""
    if reader == "loop":
        lines = 0
        with path.open("rb") as log:
            for _ in log:
                lines += 1
    elif reader == "fusiondoc":
        from fusiondoc.parsers.lines.log_files import find_logs
        from fusiondoc.parsers.read import read_logs

        report, _ = read_logs(find_logs([str(path)]))
        print(f"{len(report.groups)} groups, {len(report.unfused)} unfused rows", file=sys.stderr)
    elif reader == "extract_ir":
        from torch.utils.jit.log_extract import extract_ir

        print(f"{len(extract_ir(str(path)))} graphs", file=sys.stderr)


def measure(reader: str, path: Path, size: int) -> str:
    command = ["wc", "-l", str(path)]
    if reader != "wc":
        command = [sys.executable, __file__, "--read", reader, str(path)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        last = (done.stderr.strip() or "no message").split("\n")[-1]
        return f"failed: {last[:80]}"
    found = re.search(r"PEAK (\d+)", done.stdout)
    peak = f"{int(found.group(1)) / 1024:8.0f} MB peak" if found else ""
    return f"{size / 1e6 / seconds:8.0f} MB/s {peak}  {done.stderr.strip()[:60]}"


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def own_peak() -> int:
    """KiB that this process had at most. ``ru_maxrss`` is never less than what its parent had when it began
    (``exec_mmap`` of Linux' fs/exec.c): here one that holds all recordings."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found.group(1)) if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recordings", type=Path, default=ROOT.parent / "shared" / "recordings")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--only", choices=[*READERS.values()], action="append")
    parser.add_argument("--read", nargs=2, metavar=("READER", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read[0], Path(options.read[1]))
        print("PEAK", own_peak() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
        return
    patterns = ("torch-*/*.log", "torch-*/*/*.log")
    files = [file for pattern in patterns for file in sorted(options.recordings.glob(pattern))]
    if not files:
        sys.exit(f"no logs under {options.recordings}: name a folder with --recordings")
    data = [file.read_bytes() for file in files]
    print(f"{len(files)} recordings of {sum(map(len, data)) / 1e6:.1f} MB, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for title, rename in (("repeated", False), ("all different", True)):
            path = Path(folder) / "big.log"
            make_log(path, data, options.megabytes, rename)
            size = path.stat().st_size
            print(f"\n{title}: {size / 1e6:.0f} MB")
            for name, reader in READERS.items():
                if options.only and reader not in options.only:
                    continue
                print(f"  {name:34} {measure(reader, path, size)}", flush=True)


if __name__ == "__main__":
    main()
