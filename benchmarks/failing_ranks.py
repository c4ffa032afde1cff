"""What ``fusiondoc parse`` says of two ranks of which one fails: real runs under
torch's launcher, over gloo.

    python benchmarks/failing_ranks.py [FOLDER]

Rank 1 raises an error, is killed, or crashes. Each run is read as torch's launcher
prints it with ``--tee 3``, as it prints it without, as the folder of a file for
each rank, and as the file of rank 1 alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import os, signal, sys
import torch
import torch.distributed as dist

torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)

@torch.jit.script
def block(x, y):
    return torch.relu(x * y + x) * 2.0

dist.init_process_group("gloo")
x = torch.rand(8, 8)
for step in range(6):
    out = block(x, x)
    if step == 4 and dist.get_rank() == 1:
        if sys.argv[1] == "raise":
            x.view(3, 7)
        if sys.argv[1] != "well":
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    dist.barrier()
"""


def launch(folder: Path, how: str) -> dict[str, Path]:
    """The logs of a run, by how they were recorded."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "--tee=3",
    ]
    level = ">partition:tensorexpr_fuser:profiling_graph_executor_impl"
    done = subprocess.run(
        [*command, "--log-dir=files", "train.py", how],
        cwd=folder,
        env={**os.environ, "PYTORCH_JIT_LOG_LEVEL": level},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    (folder / "tee.log").write_bytes(done.stdout)
    (folder / "plain.log").write_bytes(
        re.sub(rb"(?m)^\[default\d\]:", b"", done.stdout)
    )
    (one,) = folder.glob("files/*/attempt_0/1/stderr.log")
    return {
        "--tee 3": folder / "tee.log",
        "plain": folder / "plain.log",
        "folder": folder / "files",
        "rank 1 alone": one,
    }


def main() -> None:
    """Print a line for each finding of an error, and how each run would be
    compared."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    for how in ("raise", "SIGKILL", "SIGSEGV", "well"):
        for name, log in launch(folder / how, how).items():
            command = [
                sys.executable,
                "-m",
                "fusiondoc",
                "parse",
                log.relative_to(folder / how),
                "--fail-on=error",
            ]
            read = subprocess.run(
                [*command, "--format=json"],
                cwd=folder / how,
                stdout=subprocess.PIPE,
                check=False,
            )
            said = subprocess.run(
                [*command, "-q"],
                cwd=folder / how,
                stdout=subprocess.PIPE,
                check=False,
            )
            report = json.loads(read.stdout)
            print(
                f"{how}, {name}: status {read.returncode}: {' '.join(said.stdout.decode().split())}"
            )
            for found in report["findings"]:
                if found["severity"] == "error":
                    print(
                        f"    {found['code']} {found['message'][:150]!r}\n        {str(found['advice'])[:90]}"
                    )
            for plan in report["plan"][:1]:
                print(f"    $ {plan['command']}")


if __name__ == "__main__":
    main()
