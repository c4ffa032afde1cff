"""What tlparse and fusiondoc answer of the same traces: the recordings of the
tests, counted.

    $ python -m venv tl && tl/bin/pip install tlparse
    $ python benchmarks/beside_tlparse.py --tlparse tl/bin/tlparse

Of tlparse the files that it writes are counted, of fusiondoc the rows of its JSON;
with "+ log" it gets the log of the same run (TORCH_LOGS) beside the trace, which
tlparse does not read.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "inductor"
_HEAD = (
    "trace",
    "kernels in the code",
    "tlparse: with source lines",
    "graphs with a map of operators",
    "fusiondoc: groups",
    "operators, with lines",
    "calls with a reason",
    "boundaries, with cause",
    "with cause + log",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tlparse", required=True, type=Path, help="its binary")
    tlparse = parser.parse_args().tlparse.resolve()
    print("| " + " | ".join(_HEAD) + " |")
    print("|---" + "|--:" * (len(_HEAD) - 1) + "|")
    for folder in sorted(
        path.parent for path in FIXTURES.glob("*/*/dedicated*.log.xz")
    ):
        with tempfile.TemporaryDirectory() as name:
            row = _row(folder, Path(name), tlparse)
        print(
            "| " + " | ".join([f"{folder.parent.name} {folder.name}", *row]) + " |",
            flush=True,
        )


def _row(recorded: Path, folder: Path, tlparse: Path) -> list[str]:
    trace, both = folder / "trace", folder / "both"
    for made in (trace, both):
        made.mkdir()
        for packed in recorded.glob("*log.xz"):
            if made is both or packed.name.startswith("dedicated"):
                (made / packed.stem).write_bytes(
                    lzma.decompress(packed.read_bytes())
                )
    (file,) = trace.iterdir()
    words = [str(tlparse), str(file), "-o", str(folder / "tl"), "--no-browser"]
    subprocess.run(words, capture_output=True, check=True)
    report, with_log = _report(trace), _report(both)
    nodes = [node for group in report["groups"] for node in group["nodes"]]
    return [
        *_of_tlparse(folder / "tl"),
        str(len(report["groups"])),
        f"{len(nodes)}, {sum(node['user_source'] is not None for node in nodes)}",
        str(len(report["unfused"])),
        _causes(report),
        _causes(with_log),
    ]


def _report(folder: Path) -> dict[str, Any]:
    words = [
        sys.executable,
        "-m",
        "fusiondoc",
        "parse",
        str(folder),
        "--format",
        "json",
    ]
    report: dict[str, Any] = json.loads(
        subprocess.run(words, capture_output=True, check=False).stdout
    )
    return report


def _causes(report: dict[str, Any]) -> str:
    found = report["boundaries"]
    return f"{len(found)}, {sum(one['cause'] is not None for one in found)}"


def _of_tlparse(folder: Path) -> Iterator[str]:
    kernels: set[str] = set()
    for page in folder.glob("*/inductor_output_code*"):
        plain = re.sub(r"<[^>]*>", "", page.read_text("utf-8"))
        kernels.update(re.findall(r"(\w+) = async_compile\.\w+\(", plain))
    with_lines = {
        name.rpartition(":")[0]
        for stacks in _objects(folder, "*kernel_stack_traces_*.json")
        for name, frames in stacks.items()
        if frames
    }
    maps = [
        bool(one.get("cppCodeToPost"))
        for one in _objects(folder, "*node_mappings*.json")
    ]
    yield str(len(kernels))
    yield str(len(kernels & with_lines))
    yield f"{sum(maps)} of {len(maps)}"


def _objects(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in folder.glob(f"*/{pattern}"):
        text = path.read_text("utf-8")
        if text.strip():
            yield json.loads(text)


if __name__ == "__main__":
    main()
