"""Leaves ``fusiondoc.capture()`` in every way there is, and prints as JSON what was
seen after each.

    python capture_blocks.py FOLDER

Groups are also read from torch's own graphs, to compare with the report.
"""

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import functorch.compile
import torch
from functorch.compile import memory_efficient_fusion

import fusiondoc
from fusiondoc.errors import UsageError

torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
torch._C._jit_set_texpr_fuser_enabled(True)

FOLDER = sys.argv[1]
DESCRIPTORS = Path("/proc/self/fd")
logging.basicConfig(format="%(message)s")  # holds the stream of before


def state():
    return {
        "descriptors": [(os.fstat(n).st_dev, os.fstat(n).st_ino) for n in (1, 2)],
        "open": len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.is_dir() else None,
        "level": torch._C._jit_get_logging_option(),
        # Torch itself sets that one, when AOTAutograd first asks where inductor's
        # cache is.
        "environment": {
            k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"
        },
        "streams": [
            (id(s), s.line_buffering, s.write_through)
            for s in (sys.stdout, sys.stderr)
        ],
        "functions": [
            *(
                id(getattr(torch.jit, name))
                for name in ("script", "trace", "load", "freeze")
            ),
            id(torch.fx.Graph.create_node),
            id(torch._functorch.aot_autograd.aot_function),
            [id(finder) for finder in sys.meta_path],
            sorted(vars(torch.nn.Module)),
        ],
        "write": [
            "write" in vars(s) or "write" in vars(s.buffer)
            for s in (sys.stdout, sys.stderr)
        ],
    }


def compiled(function, *inputs):
    scripted = torch.jit.script(function)
    for _ in range(3):
        scripted(*inputs)
    return scripted


def groups_of(scripted):
    plans = scripted.get_debug_state().execution_plans.values()
    nodes = [
        node
        for plan in plans
        for node in plan.graph.findAllNodes("prim::TensorExprGroup", True)
    ]
    bodies = [node.g("Subgraph") for node in nodes]
    return [
        [n.kind() for n in body.nodes() if n.kind() != "prim::Constant"]
        for body in bodies
    ]


def chain(x, y):
    return ((x + y).relu() * y).tanh()


def split(x, y):
    a = (x + y).relu() * 2.0
    b = torch.cumsum(a, 0)
    return (b * y).sigmoid() + b


def scaled(x, y):
    return (x + y).relu() * torch.sigmoid(x)


@torch.jit.script
class Pair:
    def __init__(self, x: torch.Tensor):
        self.x = x


earlier = memory_efficient_fusion(scaled)


def train(function, x):
    for _ in range(3):
        function(x, x).sum().backward()


def aot(seen):
    x = torch.ones(4, 4, requires_grad=True)
    with fusiondoc.capture(FOLDER) as run:
        within = functorch.compile.memory_efficient_fusion(split)
        train(earlier, x)
        train(within, x)

        @torch.jit.script
        class Two:  # finds Pair in the globals of this module
            def __init__(self, x: torch.Tensor):
                self.pair = Pair(x)

        torch.jit.script(chain)
    train(within, x)  # unwatched, and as before
    seen["aot"] = {
        one.name: [
            one.how,
            one.user_source,
            one.calls,
            one.compiles,
            one.partition.name,
        ]
        + [[graph.phase, graph.operators, graph.fused] for graph in one.graphs]
        for one in run.report.aot
    }
    seen["models"] = [[one.name, one.how] for one in run.report.script.models]


def after_end(seen):
    with fusiondoc.capture(FOLDER) as run:
        print("first line")
        x = torch.ones(4, 4)
        oracle = [
            *groups_of(compiled(chain, x, x)),
            *groups_of(compiled(split, x, x)),
        ]
        print("half a ", end="")
        sys.stdout.buffer.write(b"line\n")
        logging.warning("from logging")
        warnings.warn("from warnings", stacklevel=1)
        subprocess.run(["echo", "from a child"], check=True)
        print("last line")
    seen["oracle"] = oracle
    seen["groups"] = [list(group.ops) for group in run.report.groups]
    seen["again"] = fusiondoc.parse(run.path).groups == run.report.groups
    seen["log"] = run.log.read_text().splitlines()
    seen["notes"] = run.notes
    with fusiondoc.capture(FOLDER) as run:
        pass
    seen["nothing"] = [finding.advice for finding in run.report.findings]


def leaving(error):
    with fusiondoc.capture(FOLDER):
        print("before", type(error).__name__)
        raise error


def nested():
    with fusiondoc.capture(FOLDER), fusiondoc.capture(FOLDER):
        pass


def fork():
    with fusiondoc.capture(FOLDER) as run:
        child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert run.report.parse.lines == 0


def main():
    before = state()
    seen = {}
    torch._C._jit_set_logging_option("loop_unrolling")
    other = state()
    after_end(seen)
    seen["level kept"] = state() == other
    torch._C._jit_set_logging_option("")
    seen["end"] = state() == before
    aot(seen)
    seen["aot leaves nothing"] = state() == before
    for error in (RuntimeError("mine"), SystemExit(3), KeyboardInterrupt()):
        name = type(error).__name__
        try:
            leaving(error)
        except BaseException as caught:
            seen[name] = caught is error and state() == before
    try:
        nested()
    except UsageError as error:
        seen["refused"] = [error.message, error.hint]
    seen["nested"] = state() == before
    fork()
    seen["fork"] = state() == before
    print("JSON" + json.dumps(seen))


main()
