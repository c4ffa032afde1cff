"""Which captures are left after runs of which some are mistyped or fail, with
``--keep-last 3``.

python benchmarks/mistyped_runs.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = """
import torch

def model(x):
    return torch.relu(x * 2.0) + x

def broken(x):
    return x.view(3, 7)

inputs = (torch.rand(4),)
"""


def main() -> None:
    """Three runs that go well, three of a mistyped name, one that fails, and one
    more that goes well."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.py").write_text(MODEL)
    for name in (
        "model",
        "model",
        "model",
        "mdel",
        "mdel",
        "mdel",
        "broken",
        "model",
    ):
        command = [
            sys.executable,
            "-m",
            "fusiondoc",
            "diagnose",
            f"net.py:{name}",
            "--fuser=none",
        ]
        done = subprocess.run(
            [*command, "--runs=1", "--keep-last=3"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        results = [
            path.parent for path in (folder / ".fusiondoc").glob("*/result.json")
        ]
        well = [
            path
            for path in results
            if '"exit_status": 0' in (path / "result.json").read_text()
        ]
        print(
            f"{name}: status {done.returncode}, {len(well)} of {len(results)} captures went well"
        )
        for line in done.stderr.splitlines():
            if "removed" in line:
                print(f"    {line}")


if __name__ == "__main__":
    main()
