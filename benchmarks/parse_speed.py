"""How fast logs are read: MB/s and peak memory of ``fusiondoc`` beside simpler
readers of the same bytes.

Makes two logs out of the recordings, each of about --megabytes: one repeats them,
in the other every copy has value names, files and lines, sizes and kernel numbers
of its own. Each reader runs in a process of its own, all of them --turns times one
after another: the figures of one turn are of the same minute, and a shared machine
can be half as fast in the next. ``fusiondoc parse`` is the whole command, from its
start to the JSON file.

    python benchmarks/parse_speed.py --recordings FOLDER --megabytes 1000 --turns 3
    python benchmarks/parse_speed.py --only "fusiondoc parse" --packed gz xz zst
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import lzma
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, cast

ROOT = Path(__file__).resolve().parent.parent
NAMES = re.compile(rb"%(?!kernel)([A-Za-z0-9_.]+)")
"""Of values; ``%kernel {`` begins a dump."""
LINES = re.compile(rb"(\w+)\.py:(\d+)")
SIZES = re.compile(rb"(Float|Half|Double|Long)\(([\d, ]+)")
KERNELS = re.compile(rb"kernel(\d+)")

LOOP = "bare line loop"
READERS = (
    "wc -l",
    LOOP,
    "fusiondoc, to the report model",
    "fusiondoc parse",
    "torch extract_ir",
)
UNPACK = "unpacking alone"


def changed(data: bytes, copy: int) -> bytes:
    """A recording as a program writes it that meets other shapes and runs other
    code."""
    added = 1 + copy % 97

    def grown(found: re.Match[bytes]) -> bytes:
        sizes = re.sub(
            rb"[2-9]|\d\d+", lambda size: b"%d" % (int(size[0]) + added), found[2]
        )
        return found[1] + b"(" + sizes

    data = NAMES.sub(rb"%%\1_%d" % copy, data)
    data = LINES.sub(
        lambda found: b"%s_%d.py:%d" % (found[1], copy % 500, int(found[2]) + copy),
        data,
    )
    data = SIZES.sub(grown, data)
    return KERNELS.sub(
        lambda found: b"kernel%d" % (int(found[1]) + 40 * copy), data
    )


def make_log(
    path: Path, recordings: list[bytes], megabytes: int, different: bool
) -> None:
    """Write about ``megabytes`` MB of recordings; with ``different`` every copy is
    ``changed``."""
    written = 0
    copy = 0
    with path.open("wb") as out:
        while written < megabytes * 1_000_000:
            for data in recordings:
                written += out.write(changed(data, copy) if different else data)
                if written >= megabytes * 1_000_000:
                    break
            copy += 1


def opened(path: Path) -> IO[bytes]:
    """A log as Python's own packages unpack it."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return cast("IO[bytes]", lzma.open(path, "rb"))
    if path.suffix == ".zst":
        import zstandard

        return cast("IO[bytes]", zstandard.open(path, "rb"))
    return path.open("rb")


def pack(path: Path, ending: str) -> Path:
    """The log once more, packed as logs are."""
    packed = path.with_name(f"{path.name}.{ending}")
    with path.open("rb") as log:
        if ending == "gz":
            with gzip.open(packed, "wb", 6) as out:
                shutil.copyfileobj(log, out, 1 << 20)
        elif ending == "xz":
            with lzma.open(packed, "wb", preset=1) as out:
                shutil.copyfileobj(log, out, 1 << 20)
        else:
            import zstandard

            with packed.open("wb") as out:
                zstandard.ZstdCompressor(level=3).copy_stream(log, out)
    return packed


def read(reader: str, path: Path) -> None:
    """What the child does."""
    if reader == LOOP:
        with path.open("rb") as log:
            for _ in log:
                pass
    elif reader == UNPACK:
        with opened(path) as log:
            while log.read(1 << 20):
                pass
    elif reader.startswith("fusiondoc,"):
        from fusiondoc.parsers.lines.log_files import find_logs
        from fusiondoc.parsers.read import read_logs

        report, _ = read_logs(find_logs([str(path)]))
        print(
            f"{len(report.groups)} groups, {len(report.unfused)} unfused rows",
            file=sys.stderr,
        )
    elif reader == "fusiondoc parse":
        from fusiondoc.cli import main

        with contextlib.suppress(SystemExit):
            main(
                [
                    "parse",
                    str(path),
                    "--format",
                    "json",
                    "-o",
                    str(path.with_suffix(".json")),
                ]
            )
    elif reader == "torch extract_ir":
        from torch.utils.jit.log_extract import extract_ir

        print(f"{len(extract_ir(str(path)))} graphs", file=sys.stderr)


def measure(
    reader: str, path: Path, size: int, loop: float | None
) -> tuple[float, str]:
    """MB/s of one reader, start included, and what is said of it; ``loop``: MB/s of
    the bare loop."""
    command = ["wc", "-l", str(path)]
    if reader != "wc -l":
        command = [sys.executable, __file__, "--read", reader, str(path)]
    began = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, env=_environment(), check=False
    )
    speed = size / 1e6 / (time.perf_counter() - began)
    if done.returncode:
        last = (done.stderr.strip() or "no message").split("\n")[-1]
        return 0.0, f"failed: {last[:80]}"
    found = re.search(r"PEAK (\d+)", done.stdout)
    peak = f"{int(found.group(1)) / 1024:6.0f} MB peak" if found else " " * 14
    share = f"{100 * speed / loop:4.0f} % of the loop" if loop else ""
    return speed, f"{speed:8.0f} MB/s {peak}  {share}".rstrip()


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def own_peak() -> int:
    """KiB that this process had at most. ``ru_maxrss`` is never less than what its
    parent had when it began (``exec_mmap`` of Linux' fs/exec.c): here one that
    holds all recordings."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found.group(1)) if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--recordings", type=Path, default=ROOT.parent / "shared" / "recordings"
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument(
        "--only", choices=READERS, action="append", help="beside the bare loop"
    )
    parser.add_argument(
        "--packed",
        nargs="+",
        choices=("gz", "xz", "zst"),
        default=[],
        metavar="ENDING",
    )
    parser.add_argument(
        "--read", nargs=2, metavar=("READER", "PATH"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.read:
        read(options.read[0], Path(options.read[1]))
        print(
            "PEAK",
            own_peak() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        )
        return
    patterns = ("torch-*/*.log", "torch-*/*/*.log")
    files = [
        file
        for pattern in patterns
        for file in sorted(options.recordings.glob(pattern))
    ]
    if not files:
        sys.exit(
            f"no logs under {options.recordings}: name a folder with --recordings"
        )
    data = [file.read_bytes() for file in files]
    print(
        f"{len(files)} recordings of {sum(map(len, data)) / 1e6:.1f} MB, Python {sys.version.split()[0]}"
    )
    readers = [
        name
        for name in READERS
        if not options.only or name == LOOP or name in options.only
    ]
    with tempfile.TemporaryDirectory() as folder:
        for title, different in (("repeated", False), ("all different", True)):
            path = Path(folder) / "big.log"
            make_log(path, data, options.megabytes, different)
            size = path.stat().st_size
            packed = [pack(path, ending) for ending in options.packed]
            print(f"\n{title}: {size / 1e6:.0f} MB")
            for _ in range(options.turns):
                loop: float | None = None
                for name in readers:
                    speed, said = measure(name, path, size, loop)
                    loop = speed if name == LOOP else loop
                    print(f"  {name:32} {said}", flush=True)
                for log in packed:
                    for name in (
                        UNPACK,
                        *(name for name in readers if name.startswith("fusiondoc")),
                    ):
                        print(
                            f"  {log.suffix:4} {name:27} {measure(name, log, size, loop)[1]}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
