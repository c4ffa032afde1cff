"""Backward passes and dispatch modes that import no part of torch's compiler.

torch's public functions import sympy or ``torch._dynamo`` when they are first used.
That takes as long as importing torch itself, in every child, and an eager run needs
neither. A program that uses the compiler has imported these parts before, and gets
the public functions.
"""

from __future__ import annotations

import sys
from typing import Any, Sequence


def backward(torch: Any, roots: Sequence[Any], starts: Sequence[Any]) -> None:
    """Run ``torch.autograd.backward(roots, starts)`` if every start is a tensor.
    torch's function checks their sizes with
    ``torch.fx.experimental.symbolic_shapes`` before it calls the engine
    (``_make_grads`` of torch/autograd/__init__.py, 2.13), which checks them again.
    The engine is called as there, the same in 1.12 and 2.13.
    """
    variable = torch.autograd.Variable
    engine = getattr(variable, "_execution_engine", None)
    if (
        not roots
        or engine is None
        or "torch.fx.experimental.symbolic_shapes" in sys.modules
    ):
        torch.autograd.backward(list(roots), list(starts))
        return
    keep_graph = create_graph = False
    engine.run_backward(
        tuple(roots),
        tuple(starts),
        keep_graph,
        create_graph,
        (),
        allow_unreachable=True,
        accumulate_grad=True,
    )


def dispatch_mode(base: Any) -> Any:
    """``TorchDispatchMode`` as a base of modes whose method is not wrapped for
    ``torch._dynamo`` (``__init_subclass__`` of torch/utils/_python_dispatch.py,
    2.13), unless that is in use."""
    if "torch._dynamo" in sys.modules or not hasattr(base, "_should_skip_dynamo"):
        return base
    return type(
        "EagerMode",
        (base,),
        {"_should_skip_dynamo": classmethod(lambda cls: False)},
    )
