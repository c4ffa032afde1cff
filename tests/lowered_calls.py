"""Which operators of functions Inductor makes calls of, forward and backward. Reads
a file with a JSON list of programs, each with a function ``f`` and its ``values``.
It generates no code."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._inductor import ir
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

found: set[str] = set()


def lowered(module: Any, inputs: Any) -> Any:
    """Lower a graph and note its calls; the graph itself runs."""
    view_to_reshape(module)
    mode = torch._guards.detect_fake_mode(inputs)
    FakeTensorProp(module, mode=mode).propagate_dont_convert_inputs(*inputs)
    graph = GraphLowering(module, example_inputs=inputs, shape_env=mode.shape_env)
    with (
        V.set_graph_handler(graph),
        V.set_fake_mode(mode),
        V.set_extern_kernel_nodes([]),
    ):
        graph.run(*inputs)
        for one in graph.operations:
            if isinstance(one, (ir.FallbackKernel, ir.ScatterFallback)):
                overload = (
                    getattr(one, "op_overload", None)
                    or one.get_origin_node().target
                )
                found.add(
                    str(overload).replace("aten.", "aten::").partition(".")[0]
                )
    return module


def main() -> None:
    logging.disable(logging.ERROR)
    backend = aot_autograd(
        fw_compiler=lowered, bw_compiler=lowered, decompositions=select_decomp_table
    )
    torch.set_num_threads(
        2
    )  # with one, additions into elements of a tensor are loops on a CPU
    answers = []
    for program in json.loads(Path(sys.argv[1]).read_text()):
        found.clear()
        torch._dynamo.reset()
        names: dict[str, Any] = {}
        exec(program, names)
        made = torch.compile(names["f"], backend=backend)(*names["values"])
        outputs = made if isinstance(made, tuple) else (made,)
        parts = [
            torch.view_as_real(one) if one.is_complex() else one for one in outputs
        ]
        bearing = [one for one in parts if one.requires_grad]
        if bearing:
            sum(one.sum() for one in bearing).backward()
        answers.append(sorted(found))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
