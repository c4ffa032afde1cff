"""The ways to run a model that ``fusiondoc bench`` compares, and what each has compiled."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Callable, ContextManager

from . import fusers
from .failures import CANNOT_RUN, Refused, UserError
from .models import frozen, to_torchscript
from .pass_inputs import Shape, on_gpu
from .verify import eager_twin, unfused

TORCHSCRIPT = ("nvfuser", "nnc", "onednn", "none")
AOT = ("aot", "aot-default", "aot-each-call")

_GROUPS = ("prim::CudaFusionGroup", "prim::TensorExprGroup", "prim::oneDNNFusionGroup")


class Built:
    """A variant that can be run.

    Attributes:
        model: to be called with the arguments of a step.
        around: a context for each call.
        fuser: of TorchScript, if it runs through that.
        note: what is to be known about it.
    """

    def __init__(self, model: Any, fuser: str | None = None, note: str | None = None) -> None:
        self.model = model
        self.fuser = fuser
        self.note = note
        self.around: Callable[[], ContextManager[Any]] = contextlib.nullcontext
        self.compiled: Callable[[], int | None] = lambda: None
        """How often it has compiled so far; None where this cannot be told."""
        self.groups: Callable[[], tuple[int | None, int | None]] = lambda: (None, None)
        """Fusion groups in the forward and backward plans; None where torch does not tell."""


def build(torch: Any, variant: str, model: Any, shape: Shape, backward: bool, trace: bool) -> Built:
    """The variant of the model.

    Raises:
        Refused: it cannot run here, and why.
        UserError: the model cannot be compiled so.
    """
    if variant == "eager":
        return _eager(torch, model)
    if variant in TORCHSCRIPT:
        return _torchscript(torch, variant, model, shape, backward, trace)
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise _cannot("the model is TorchScript already, and %s compiles Python" % variant)
    if variant in AOT:
        return _aot(torch, variant, model, shape)
    return _inductor(torch, model)


def _cannot(why: str, hint: str | None = None) -> Refused:
    return Refused("variant", why, hint, CANNOT_RUN)


def _eager(torch: Any, model: Any) -> Built:
    if not isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return Built(model)
    built = Built(eager_twin(torch, model, "bench"), note="TorchScript without optimisation")
    built.around = lambda: unfused(torch)
    return built


def _torchscript(torch: Any, variant: str, model: Any, shape: Shape, backward: bool, trace: bool) -> Built:
    fuser, _ = fusers.choose(torch, variant)
    if fuser == "nnc" and not on_gpu(torch, model, shape) and not torch._C._llvm_enabled():
        raise _cannot(
            "NNC has no compiler for the CPU in this torch (no LLVM): it would run through an evaluator that"
            " is hundreds of times slower than any kernel, and say nothing about speed"
        )
    if fuser == "onednn" and backward:
        raise _cannot("oneDNN Graph fuses frozen modules in eval mode only: there is no backward pass")
    if fuser == "onednn" and on_gpu(torch, model, shape):
        raise _cannot("oneDNN Graph compiles for the CPU only, and the model is on the GPU")
    note = None
    if fuser == "onednn" and isinstance(model, torch.nn.Module):
        if model.training and not isinstance(model, torch.jit.ScriptModule):
            raise _cannot("oneDNN Graph fuses modules in eval mode only, and this one is in training mode")
        note = "frozen"
    fusers.switch_on(torch, fuser)
    scripted = to_torchscript(torch, model, shape, trace)
    if fuser == "onednn":
        scripted = frozen(torch, scripted)
    built = Built(scripted, fuser, note)
    built.groups = lambda: _groups_of(torch, [scripted])
    return built


def _aot(torch: Any, variant: str, model: Any, shape: Shape) -> Built:
    try:
        compilers = importlib.import_module("functorch.compile")
    except ImportError as error:
        raise _cannot(
            "functorch.compile cannot be imported: %s" % str(error).split("\n")[0],
            "It is in torch from 1.13 on, and in the package functorch 0.2 for torch 1.12.",
        ) from None
    fuser = "nvfuser" if fusers.why_no_nvfuser(torch) is None else "nnc"
    if fuser == "nnc" and not on_gpu(torch, model, shape) and not torch._C._llvm_enabled():
        fuser = "none"  # NNC has no compiler for the CPU here.
    fusers.switch_on(torch, fuser)
    scripted = _Scripted(torch)
    try:
        if variant == "aot":
            made = compilers.memory_efficient_fusion(model)
        elif variant == "aot-each-call":
            made = _wrapped_anew(compilers.memory_efficient_fusion, model)
        else:
            make = compilers.aot_module if isinstance(model, torch.nn.Module) else compilers.aot_function
            options = {"fw_compiler": compilers.ts_compile, "bw_compiler": compilers.ts_compile}
            decompositions = getattr(compilers, "default_decompositions", None)
            if decompositions:
                options["decompositions"] = decompositions
            made = make(model, **options)
    except Exception as error:
        raise UserError(variant) from error
    note = "its graphs run under %s" % fuser if fuser != "none" else "its graphs run without a fuser here"
    built = Built(made, fuser, note)
    built.compiled = lambda: scripted.count
    built.groups = scripted.groups_of_each_call if variant == "aot-each-call" else scripted.groups
    return built


def _wrapped_anew(wrap: Callable[[Any], Any], model: Any) -> Callable[..., Any]:
    """Calls a new wrapper each time, as modules of xFormers 0.0.12 to 0.0.21 do (components/nvfuser)."""

    def call(*arguments: Any) -> Any:
        return wrap(model)(*arguments)

    return call


class _Scripted:
    """The modules that ``ts_compile`` makes: it ends in ``torch.jit.optimize_for_inference`` and returns a
    closure that hides the module (torch/_functorch/compilers.py in 2.0 to 2.13; functorch/_src/compilers.py
    in 1.13).

    Attributes:
        count: all of them; only the first ``MOST`` are kept.
    """

    MOST = 16

    def __init__(self, torch: Any) -> None:
        self.count = 0
        self._torch = torch
        self._first: list[Any] = []
        original = torch.jit.optimize_for_inference

        def recording(*args: Any, **kwargs: Any) -> Any:
            module = original(*args, **kwargs)
            self.count += 1
            if len(self._first) < self.MOST:
                self._first.append(module)
            return module

        torch.jit.optimize_for_inference = recording

    def groups(self) -> tuple[int | None, int | None]:
        """AOTAutograd compiles the forward graph first, then the backward graph; neither has executors of
        autodiff inside."""
        forward, _ = _groups_of(self._torch, self._first[:1])
        backward, _ = _groups_of(self._torch, self._first[1:])
        return forward, backward

    def groups_of_each_call(self) -> tuple[int | None, int | None]:
        """None are fused in a module that runs once: its executor profiles and makes no plan, which torch
        says by failing an assertion."""
        for module in self._first:
            try:
                module._c.get_debug_state()
            except RuntimeError:
                continue
            except AttributeError:
                return None, None
            return self.groups()
        return 0, 0


def _inductor(torch: Any, model: Any) -> Built:
    if not hasattr(torch, "compile"):
        raise _cannot("torch.compile is in torch from 2.0 on; this is torch %s" % torch.__version__)
    try:
        made = torch.compile(model)
    except Exception as error:  # an operating system or a Python that it does not support
        raise _cannot("torch.compile: %s" % str(error).split("\n")[0]) from None
    built = Built(made)
    built.compiled = lambda: _dynamo_graphs()
    return built


def _dynamo_graphs() -> int | None:
    """Graphs that torch.compile has compiled in this process (torch/_dynamo/utils.py, ``counters``)."""
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["stats"]["unique_graphs"]) if utils is not None else None


def _groups_of(torch: Any, modules: list[Any]) -> tuple[int | None, int | None]:
    """Fusion groups in the plans of forward and backward executors; None where torch cannot list them."""
    found: list[int | None] = [0, 0]
    for module in modules:
        try:
            owner = module._c if hasattr(module, "_c") else module
            _count_groups(owner.get_debug_state(), 0, found)
        except (AttributeError, RuntimeError):
            return None, None
    return found[0], found[1]


def _count_groups(state: Any, place: int, found: list[int | None]) -> None:
    for plan in state.execution_plans.values():
        for kind in _GROUPS:
            number = len(list(plan.graph.findAllNodes(kind, True)))
            known = found[place]
            found[place] = None if known is None else known + number
        for inner, attribute in (
            (place, "differentiable_op_executor_states"),
            (1, "grad_executor_states"),
        ):
            try:
                states = getattr(plan.code, attribute)()
            except RuntimeError:  # an executor without a plan yet fails an assertion of torch's
                found[inner] = None
                continue
            for one in states:
                _count_groups(one, inner, found)
