"""Records what Transformer Engine plans for random sequences of its operators,
under random recipes.

    python tests/te_cpu/random_plans.py SEED COUNT     # with the environment of
    record_plans.py

Sequences hold what users write: operators of every kind, in and not in place,
weights of several types and of no gradient, operators of tensor and sequence
parallelism, classes of the program's own, modules that are no operators, sequences
in sequences, and (2.13 and later) fusions that the program registers; weights that
are converted after the first calls, and operators that are called by themselves.
Output: as that of record_plans.py.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import torch
import transformer_engine.pytorch.ops as te
from record_plans import BF16, add, group, make
from transformer_engine.pytorch.ops.fuser import OperationFuser
from transformer_engine.pytorch.ops.op import BasicOperation, FusedOperation

from fusiondoc.probe import Refused
from fusiondoc.probe.log_and_records import Records
from fusiondoc.probe.te_plans import Watch
from fusiondoc.probe.te_run import recipe_named, under

TYPES = [BF16, BF16, torch.float16, torch.float32]
RECIPES = [
    "none",
    "none",
    "delayed",
    "delayed",
    "current",
    "block",
    "mxfp8",
    "nvfp4",
    "override",
]
ACTIVATIONS = [
    "GELU",
    "GELU",
    "ReLU",
    "ReLU",
    "SiLU",
    "SwiGLU",
    "GEGLU",
    "ReGLU",
    "QGELU",
    "SReLU",
]
OTHERS = ["Identity", "L2Normalization", "Dropout", "Quantize"]


class OwnGELU(te.GELU):
    """A class of the program's own that is one of Transformer Engine's."""


class OwnBias(te.Bias):
    """The same of a bias."""


class Own(BasicOperation):
    """An operator of the program's own."""

    def op_forward(self, ctx, input_, **rest):
        return input_

    def op_backward(self, ctx, grad):
        return grad, ()


class Bias(Own):
    """An operator of the program's own that only has the name of Transformer
    Engine's."""


class OwnFused(FusedOperation):
    """A fused operator of the program's own."""


def operator(rng):
    """A random operator, or several that belong together."""
    more = {"device": "cpu", "dtype": rng.choice(TYPES)}
    kind = rng.random()
    if kind < 0.3:
        return linear(rng, more)
    if kind < 0.4:
        return (OwnBias if rng.random() < 0.1 else te.Bias)(32, **more)
    if kind < 0.55:
        if rng.random() < 0.1:
            return OwnGELU()
        found = [one for one in ACTIVATIONS if hasattr(te, one)]
        return getattr(te, rng.choice(found))()
    if kind < 0.67:
        return adding(rng.random() < 0.7)
    if kind < 0.79:
        return making(rng.random() < 0.6)
    if kind < 0.86:
        return scale()
    if kind < 0.91:
        return (te.RMSNorm if rng.random() < 0.7 else te.LayerNorm)(32, **more)
    if kind < 0.93:
        return (
            te.ReduceScatter(group())
            if rng.random() < 0.5
            else te.AllReduce(group())
        )
    if kind < 0.95:
        return rng.choice([Own, Own, Bias])()
    if kind < 0.96:
        return torch.nn.Identity()
    found = [one for one in OTHERS if hasattr(te, one)]
    name = rng.choice(found)
    return getattr(te, name)(*([0.1] if name == "Dropout" else []))


def linear(rng, more):
    """One of te.ops.Linear or te.ops.BasicLinear; a third of them of tensor
    parallelism."""
    options = dict(more)
    if rng.random() < 0.3:
        options.update(
            tensor_parallel_mode=rng.choice(["row", "column"]),
            tensor_parallel_group=group(),
        )
    if rng.random() < 0.5:
        if rng.random() < 0.2:
            options["userbuffers_options"] = {"comm_name": "qkv"}
        made = te.BasicLinear(32, 32, **options)
    else:
        made = te.Linear(32, 32, bias=rng.random() < 0.6, **options)
    if rng.random() < 0.15:
        for one in made.parameters():
            one.requires_grad_(False)
    return made


def phrase(rng):
    """Operators that some rule takes together; one of them may be another."""
    more = {"device": "cpu", "dtype": rng.choice(TYPES)}
    patterns = [
        lambda: [linear(rng, more), adding(rng.random() < 0.8)],
        lambda: [linear(rng, more), scale(), adding(rng.random() < 0.8)],
        lambda: [making(rng.random() < 0.8), linear(rng, more)],
        lambda: [making(rng.random() < 0.3), te.RMSNorm(32, **more)],
        lambda: [
            linear(rng, more),
            te.Bias(32, **more),
            rng.choice([te.GELU, te.ReLU])(),
        ],
        lambda: [linear(rng, more), rng.choice([te.GELU, te.ReLU])()],
        lambda: [
            operator(rng),
            te.Bias(32, **more),
            rng.choice([te.GELU, te.ReLU])(),
        ],
    ]
    made = rng.choice(patterns)()
    if rng.random() < 0.2:
        made[rng.randrange(len(made))] = operator(rng)
    return made


def sequence(rng):
    """A module of one to four phrases, now and then with a sequence in it."""
    made = []
    for _ in range(rng.randint(1, 4)):
        made += (
            phrase(rng)
            if rng.random() < 0.6
            else [operator(rng) for _ in range(rng.randint(1, 3))]
        )
    if rng.random() < 0.15:
        at = rng.randrange(len(made))
        made[at:at] = [te.Sequential(operator(rng), operator(rng))]
    return te.Sequential(*made)


def fusion(rng):
    """A fusion of the program's own: two operators of kinds that are drawn, where
    they are neighbours."""
    kinds = [
        te.ConstantScale,
        te.Bias,
        te.GELU,
        te.ReLU,
        te.RMSNorm,
        te.AddExtraInput,
        te.BasicLinear,
    ]
    first, second = rng.sample(kinds, 2)

    def fuse_two_of_its_own(ops, *, recipe):
        made = []
        for op in ops:
            if made and isinstance(made[-1], first) and isinstance(op, second):
                op = OwnFused((made.pop(), op))
            made.append(op)
        return made

    return fuse_two_of_its_own


def scale():
    return (
        te.ConstantScale(0.5) if hasattr(te, "ConstantScale") else te.Identity()
    )  # 2.7 and later


def adding(in_place):
    return add(in_place or not hasattr(te, "AddExtraInput"))


def making(in_place):
    return make(
        in_place
        or "in_place" not in te.MakeExtraOutput.__init__.__code__.co_varnames
    )


def recipe(rng):
    name = rng.choice(RECIPES)
    try:
        made = recipe_named("current" if name == "override" else name)
    except Refused:
        return recipe_named("delayed")  # an older version
    if name != "override":
        return made
    if hasattr(made, "backward_override"):
        made.backward_override = rng.choice(["high_precision", "dequantized"])
    return made


def registered(rng):
    """Fusions for one program, which ``forget`` takes back."""
    if not hasattr(te, "register_forward_fusion") or rng.random() < 0.8:
        return
    for register in (te.register_forward_fusion, te.register_backward_fusion):
        if rng.random() < 0.7:
            register(fusion(rng), prepend=rng.random() < 0.5)


def again(rng, model, inputs, recipe):
    """What a program may do after the first calls: convert the weights, call an
    operator by itself."""
    chosen = rng.random()
    if chosen < 0.15:
        model.to(rng.choice([BF16, torch.float32]))
        if rng.random() < 0.5:
            recipe = None
        with under(recipe):
            model(*inputs)
    elif chosen < 0.3:
        alone = [
            one
            for one in model.modules()
            if isinstance(one, (te.Linear, te.BasicLinear, te.Bias))
        ]
        for one in rng.sample(alone, min(2, len(alone))):
            with under(recipe):
                one(inputs[0])


def forget(kept):
    for name, functions in kept.items():
        setattr(OperationFuser, name, list(functions))


def main(seed, count):
    path = Path(tempfile.mkdtemp()) / "records.jsonl"
    records = Records(str(path))
    watch = Watch(te, records)
    watch.on()
    names = [
        name for name in dir(OperationFuser) if name.endswith("_fusion_functions")
    ]
    kept = {name: list(getattr(OperationFuser, name)) for name in names}
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        records.write("program", name=f"{seed}:{number}")
        try:
            made = recipe(rng)
            model = sequence(rng)
            registered(rng)
            extra = sum(
                getattr(op, "num_extra_inputs", 0) for op in model.modules()
            )
            inputs = [
                torch.ones(16, 32, dtype=BF16, requires_grad=rng.random() < 0.7)
            ]
            inputs += [torch.ones(16, 32, dtype=BF16) for _ in range(extra)]
            for grad in (True, False):
                with torch.set_grad_enabled(grad), under(made):
                    model(*inputs)
            again(rng, model, inputs, made)
            watch.end(model)
        except Exception as error:
            records.write(
                "left_out", why=f"{type(error).__name__}: {error}".split("\n")[0]
            )
        forget(kept)
    for line in path.read_text("utf-8").splitlines():
        print(json.dumps(json.loads(line), separators=(",", ":")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
