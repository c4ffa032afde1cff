"""What fusiondoc's watch of Inductor adds to a compile, and where the time of a run
with --no-run goes.

    python benchmarks/inductor_hooks.py [--layers 1] [--backward] [--runs 3]
    [--kernels]

Each run is a process of its own that compiles a transformer block with caches off:
once with the watch, once without. Seconds are those of the processor, of which
other programs on the machine take none. ``--kernels`` compiles the kernels too;
else they are generated alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STAGES = ("import torch", "import the compiler", "compile", "of it hooks")


def measure(arguments: argparse.Namespace, watched: bool) -> dict[str, float]:
    """Seconds by stage, of one process."""
    command = [
        sys.executable,
        __file__,
        "--child",
        "--layers",
        str(arguments.layers),
    ]
    command += (
        ["--backward"] * arguments.backward
        + ["--kernels"] * arguments.kernels
        + ["--watch"] * watched
    )
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def child(arguments: argparse.Namespace) -> dict[str, float]:
    """The stages, one after the other, in this process."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    seconds = {}
    began = time.process_time()

    def stage(name: str) -> None:
        nonlocal began
        now = time.process_time()
        seconds[name] = now - began
        began = now

    import torch
    from torch import nn

    stage("import torch")
    import torch._dynamo
    import torch._inductor.compile_fx

    stage("import the compiler")
    from fusiondoc.probe.fusers import without_kernels
    from fusiondoc.probe.inductor_watch import InductorWatch
    from fusiondoc.probe.log_and_records import Records

    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1
    layer = nn.TransformerEncoderLayer(
        64, 4, 256, dropout=0.0, batch_first=True, norm_first=True
    )
    model = nn.TransformerEncoder(
        layer, arguments.layers, enable_nested_tensor=False
    )
    x = torch.randn(8, 32, 64)
    with tempfile.TemporaryDirectory() as folder:
        watch = InductorWatch(torch, Records(str(Path(folder) / "records.jsonl")))
        if arguments.watch:
            watch.start()
        began = time.process_time()
        with (
            contextlib.nullcontext()
            if arguments.kernels
            else without_kernels(torch)
        ):
            output = torch.compile(model)(x)
            if arguments.backward:
                output.sum().backward()
        watch.finish()
        stage("compile")
    seconds["of it hooks"] = watch.own_seconds
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments)))
        return
    runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(arguments.runs):
        for watched, found in runs.items():
            found.append(measure(arguments, watched))
    print(
        f"{'stage':22}{'without':>10}{'watched':>10}   seconds of the processor, median"
    )
    for name in STAGES:
        without, watched = (
            statistics.median(run[name] for run in runs[way])
            for way in (False, True)
        )
        print(f"{name:22}{without:10.2f}{watched:10.3f}")
    compiled = statistics.median(run["compile"] for run in runs[True])
    hooks = statistics.median(run["of it hooks"] for run in runs[True])
    print(f"hooks: {hooks / compiled:.1%} of the compile")


if __name__ == "__main__":
    main()
