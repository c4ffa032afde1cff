"""Records what Transformer Engine plans for a program of every rule and every
reason to stay basic.

    pip download transformer_engine==2.13.0 --no-deps --only-binary=:all: -d wheels
    unzip -d te wheels/*.whl; export PYTHONPATH=tests/te_cpu:te:.
    python tests/te_cpu/record_plans.py | xz -9 > fixtures/te/plans-2.13.0.jsonl.xz

The planner is the package's own; nothing is run (see sitecustomize.py). A program
that a version cannot build is left out. Output: the probe's records, after a line
that names the program.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
import transformer_engine.pytorch.ops as te
from transformer_engine.pytorch.ops.op import FusedOperation

from fusiondoc.probe.log_and_records import Records
from fusiondoc.probe.te_plans import Watch
from fusiondoc.probe.te_run import recipe_named, under

BF16 = torch.bfloat16


def linear(dtype=BF16, **more):
    return te.Linear(32, 32, device="cpu", dtype=dtype, **more)


def parallel(mode, **more):
    return linear(tensor_parallel_mode=mode, tensor_parallel_group=group(), **more)


def basic(mode, **more):
    """te.ops.Linear makes a row-parallel operator of others; this is the one that
    the rules ask."""
    options = (
        {"tensor_parallel_mode": mode, "tensor_parallel_group": group()}
        if mode
        else {}
    )
    return te.BasicLinear(32, 32, device="cpu", dtype=BF16, **options, **more)


def userbuffers(mode):
    return basic(mode, userbuffers_options={"comm_name": "qkv"})


def norm(kind):
    return kind(32, device="cpu", dtype=BF16)


def group():
    """Two processes of a backend that sends nothing."""
    if not torch.distributed.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group(
            "fake", store=FakeStore(), rank=0, world_size=2
        )
    return torch.distributed.group.WORLD


def add(in_place=True):
    if hasattr(te, "AddInPlace") and not hasattr(te, "AddExtraInput"):
        assert in_place
        return te.AddInPlace()  # 1.13
    return te.AddExtraInput(in_place=in_place)


def make(in_place):
    if (
        in_place
        and "in_place" not in te.MakeExtraOutput.__init__.__code__.co_varnames
    ):
        return te.MakeExtraOutput()  # 1.13
    return te.MakeExtraOutput(in_place=in_place)


def override():
    """A recipe with a high-precision backward pass (2.15 and later)."""
    made = recipe_named("delayed")
    kind = recipe_named("current")
    assert hasattr(made, "backward_override")
    kind.backward_override = "high_precision"
    return kind


class ScaledBias(FusedOperation):
    """A fused operator of the program's own."""

    def __init__(self, scale, bias):
        super().__init__((scale, bias))


def registered():
    def fuse_scale_and_bias(ops, *, recipe):
        made = []
        for op in ops:
            if (
                made
                and isinstance(made[-1], te.ConstantScale)
                and isinstance(op, te.Bias)
            ):
                op = ScaledBias(made.pop(), op)
            made.append(op)
        return made

    te.register_forward_fusion(fuse_scale_and_bias)
    return [te.ConstantScale(0.5), te.Bias(32, device="cpu", dtype=BF16), te.GELU()]


def bare_bias():
    return te.Bias(32, device="cpu", dtype=BF16)


PROGRAMS = {
    # name: (operators, recipe)
    "bias in bfloat16": (lambda: [linear(), te.GELU(), linear()], "none"),
    "bias in float16": (lambda: [linear(torch.float16)], "none"),
    "bias in float32": (lambda: [linear(torch.float32)], "none"),
    "no bias": (lambda: [linear(bias=False), te.GELU()], "none"),
    "bias and sum": (lambda: [linear(), add()], "none"),
    "sum without bias": (lambda: [linear(bias=False), add()], "none"),
    "sum in float32": (lambda: [linear(torch.float32), add()], "none"),
    "sum not in place": (lambda: [linear(), add(False)], "none"),
    "sum behind an activation": (lambda: [linear(), te.GELU(), add()], "none"),
    "scale and sum": (
        lambda: [linear(bias=False), te.ConstantScale(0.5), add()],
        "none",
    ),
    "scale and sum not in place": (
        lambda: [linear(bias=False), te.ConstantScale(0.5), add(False)],
        "none",
    ),
    "bias between product and scale": (
        lambda: [linear(), te.ConstantScale(0.5), add()],
        "none",
    ),
    "extra output in place": (lambda: [make(True), linear(bias=False)], "none"),
    "extra output not in place": (
        lambda: [make(False), linear(bias=False)],
        "none",
    ),
    "extra output and RMSNorm": (lambda: [make(False), norm(te.RMSNorm)], "none"),
    "extra output in place and RMSNorm": (
        lambda: [make(True), norm(te.RMSNorm)],
        "none",
    ),
    "extra output and LayerNorm": (
        lambda: [make(False), norm(te.LayerNorm)],
        "none",
    ),
    "no recipe": (lambda: [linear(), te.GELU()], "none"),
    "delayed": (lambda: [linear(), te.GELU()], "delayed"),
    "current": (lambda: [linear(), te.GELU()], "current"),
    "block": (lambda: [linear(), te.ReLU()], "block"),
    "mxfp8": (lambda: [linear(), te.ReLU()], "mxfp8"),
    "SiLU": (lambda: [linear(), te.SiLU()], "delayed"),
    "no quantizer before the bias": (
        lambda: [norm(te.LayerNorm), bare_bias(), te.GELU()],
        "delayed",
    ),
    "bias first": (lambda: [bare_bias(), te.GELU(), linear()], "delayed"),
    "backward override": (lambda: [linear(), te.GELU()], override),
    "everything": (
        lambda: [
            make(True),
            linear(),
            te.GELU(),
            linear(bias=False),
            te.ConstantScale(0.5),
            add(),
        ],
        "delayed",
    ),
    "grouped MLP": (
        lambda: [
            te.GroupedLinear(2, 64, 128, device="cpu", dtype=BF16),
            te.ScaledSwiGLU(),
            te.GroupedLinear(2, 64, 64, device="cpu", dtype=BF16),
        ],
        "mxfp8",
    ),
    "options without processes": (
        lambda: [userbuffers(None), bare_bias()],
        "none",
    ),
    "a fusion of its own": (registered, "none"),
    # From here on with two processes.
    "row": (lambda: [basic("row"), bare_bias(), add()], "none"),
    "column": (
        lambda: [make(True), parallel("column", bias=False), te.ConstantScale(0.5)],
        "none",
    ),
    "userbuffers": (lambda: [userbuffers("column"), bare_bias()], "none"),
    "userbuffers, row and bias": (
        lambda: [userbuffers("row"), bare_bias()],
        "none",
    ),
}


def main():
    torch.set_grad_enabled(True)
    path = Path(tempfile.mkdtemp()) / "records.jsonl"
    records = Records(str(path))
    watch = Watch(te, records)
    watch.on()
    for name, (operators, recipe) in PROGRAMS.items():
        records.write("program", name=name)
        try:
            made = recipe_named(recipe) if isinstance(recipe, str) else recipe()
            model = te.Sequential(*operators())
            inputs = [torch.ones(16, 32, dtype=BF16, requires_grad=True)]
            extra = sum(getattr(op, "num_extra_inputs", 0) for op in model)
            inputs += [torch.ones(16, 32, dtype=BF16) for _ in range(extra)]
            for grad in (True, False):
                with torch.set_grad_enabled(grad), under(made):
                    model(*inputs)
            watch.end(model)
        except Exception as error:
            records.write(
                "left_out", why=f"{type(error).__name__}: {error}".split("\n")[0]
            )
    for line in path.read_text("utf-8").splitlines():
        print(json.dumps(json.loads(line), separators=(",", ":")))


if __name__ == "__main__":
    sys.exit(main())
