"""The loop of ``fusiondoc bench`` against one of ten lines written by hand, in one
process and in turns.

    python benchmarks/bench_against_plain_loop.py [--seconds 140] [--processes 2]
    [--json FILE] [BLOCK ...]

The blocks are those of the nvFuser tutorial (fusiondoc/suites/timed_programs.py:
composite, primitive, rms_norm), forward and backward, 64x128x1024 float32 on a GPU
and small on a CPU. Each variant that this torch has is made twice in a process of
its own: as bench makes it, and by hand. Five times, bench's loop and the plain one
run about 0.12 s each, twice, in the order one, other, other, one.
``torch.utils.benchmark`` times the plain step once at the end. ``--seconds`` starts
no process after so long. Needs torch alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from fusiondoc.probe import Refused, UserError
from fusiondoc.probe.benchmark_steps import Built, Given, Steps, build
from fusiondoc.suites import timed_programs

BLOCKS = {"composite": 3, "primitive": 3, "rms_norm": 2}
"""How many vectors each takes behind its two activations."""
VARIANTS = ("eager", "nvfuser", "nnc", "none", "aot", "inductor")
REPETITIONS = 5
SECONDS = 0.12
GPU = torch.version.cuda is not None and Path("/dev/nvidiactl").exists()


def synchronise() -> None:
    if GPU:
        torch.cuda.synchronize()


def plain(
    model: Callable[..., Any], inputs: tuple[Any, ...], ones: Any, steps: int
) -> float:
    """Seconds that ``steps`` steps take: the loop written by hand."""
    synchronise()
    began = time.perf_counter()
    for _ in range(steps):
        model(*inputs).backward(ones)
        for one in inputs:
            one.grad = None
    synchronise()
    return time.perf_counter() - began


def by_hand(variant: str, block: Callable[..., Any]) -> Callable[..., Any]:
    """The variant as its documentation has it; fusers are those that ``build`` has
    switched on."""
    if variant in ("nvfuser", "nnc", "none"):
        return torch.jit.script(block)  # type: ignore[no-any-return]
    if variant == "aot":
        from functorch.compile import memory_efficient_fusion

        return memory_efficient_fusion(block)  # type: ignore[no-any-return]
    return torch.compile(block) if variant == "inductor" else block


def tensors(block: str) -> tuple[Any, ...]:
    sizes = (64, 128, 1024) if GPU else (4, 32, 256)
    device = "cuda" if GPU else "cpu"
    shapes = [sizes, sizes, *[sizes[2:]] * BLOCKS[block]]
    return tuple(
        torch.randn(*shape, device=device, requires_grad=True) for shape in shapes
    )


def measure(name: str, variant: str) -> Iterator[dict[str, Any]]:
    """One process: a row for each repetition, and one of torch.utils.benchmark."""
    # Its import asks for GPUs, after which no child may be forked that uses one.
    from torch.utils.benchmark import Timer

    torch.manual_seed(0)
    block = getattr(timed_programs, name)
    inputs = tensors(name)
    ones = torch.ones_like(inputs[0])
    shape = lambda: inputs  # noqa: E731
    built: Built = build(torch, variant, block, shape, True, False)
    steps = Steps(torch, block, Given(shape), True, variant)
    shortest = min(steps.warm_up(built, lambda: None))
    model = by_hand(variant, block)
    for _ in range(10):
        plain(model, inputs, ones, 1)
    number = max(3, int(SECONDS / shortest))
    bench = lambda: steps.loop(built, number)  # noqa: E731
    mine = lambda: plain(model, inputs, ones, number)  # noqa: E731
    bench(), mine()
    for _ in range(REPETITIONS):
        first, second, third, fourth = bench(), mine(), mine(), bench()
        yield {
            "bench": 2 * number / (first + fourth),
            "plain": 2 * number / (second + third),
        }

    def step() -> None:
        model(*inputs).backward(ones)
        for one in inputs:
            one.grad = None

    timer = Timer(
        "step()", globals={"step": step}, num_threads=torch.get_num_threads()
    )
    yield {"timer": 1 / timer.timeit(number).mean}


def in_a_process(name: str, variant: str) -> list[dict[str, Any]]:
    """Forked before CUDA is touched, so that torch is imported once."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(reading)
        try:
            rows = list(measure(name, variant))
        except Exception as error:
            cause = (
                error.__cause__
                if isinstance(error, UserError) and error.__cause__
                else error
            )
            why = (
                str(cause)
                .strip()
                .split("\n")[0 if isinstance(cause, Refused) else -1]
            )
            rows = [{"why": f"{type(cause).__name__}: {why}"[:200]}]
        with os.fdopen(writing, "w") as file:
            json.dump(rows, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else [{"why": "the process ended"}]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "blocks", nargs="*", metavar="BLOCK", help=", ".join(BLOCKS)
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--variant", action="append", choices=VARIANTS)
    parser.add_argument("--json")
    asked = parser.parse_args()
    began = time.monotonic()
    print(
        f"torch {torch.__version__}, Python {sys.version.split()[0]}, {'GPU' if GPU else 'CPU'}"
    )
    done: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    failed: set[tuple[str, str]] = set()
    for number in range(asked.processes):
        for block in asked.blocks or BLOCKS:
            for variant in asked.variant or VARIANTS:
                if (
                    block,
                    variant,
                ) in failed or time.monotonic() - began > asked.seconds:
                    continue
                rows = in_a_process(block, variant)
                done.setdefault((block, variant), []).append(rows)
                if "why" in rows[0]:
                    failed.add((block, variant))
                    print(f"{block:10} {variant:9} {rows[0]['why']}", flush=True)
                    continue
                turns, timer = rows[:-1], rows[-1]["timer"]
                ratios = [row["bench"] / row["plain"] for row in turns]
                middle = [
                    statistics.median(row[way] for row in turns)
                    for way in ("bench", "plain")
                ]
                print(
                    f"{block:10} {variant:9} process {number + 1}: bench {middle[0]:7.0f}"
                    f" plain {middle[1]:7.0f} timer {timer:7.0f} steps/s,"
                    f" bench/plain {statistics.median(ratios):.3f}"
                    f" ({' '.join(f'{one:.3f}' for one in ratios)})",
                    flush=True,
                )
    if asked.json:
        content = [
            {"block": a, "variant": b, "processes": rows}
            for (a, b), rows in done.items()
        ]
        told = {"torch": torch.__version__, "python": sys.version, "rows": content}
        Path(asked.json).write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
