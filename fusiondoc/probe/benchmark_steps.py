"""The variants of a model that ``fusiondoc bench`` compares, and the timed loop of
their steps, with as little overhead as a loop written by hand.

``--random-sizes`` takes inputs of other sizes for every step, as in the dynamic
part of the tutorial that ``--suite tutorial`` times (its address:
``suites/__init__.py``): the first two sizes are changed by -2 to 2, twenty times,
and the last, which parameters share, never.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import sys
import time
from typing import Any, Callable, ContextManager, Iterator, Sequence

from . import CANNOT_RUN, Refused, UserError, first_line, fusers
from .log_and_records import Records
from .models import frozen, to_torchscript
from .pass_inputs import Shape, arguments_of, on_gpu, parameters_of, tensors_in
from .same_results import eager_twin, unfused

AOT = ("aot", "aot-default", "aot-each-call")

_GROUPS = tuple(fusers.GROUPS.values())


class Built:
    """A variant that can be run.

    Attributes:
        model: called with the arguments of a step.
        around: a context for each call.
        fuser: of TorchScript, if it runs through that.
        note: a remark for the report.
    """

    def __init__(
        self, model: Any, fuser: str | None = None, note: str | None = None
    ) -> None:
        self.model = model
        self.fuser = fuser
        self.note = note
        self.around: Callable[[], ContextManager[Any]] = contextlib.nullcontext
        self.compiled: Callable[[], int | None] = lambda: None
        """Number of compilations so far; None if torch does not count them."""
        self.groups: Callable[[], tuple[int | None, int | None]] = lambda: (
            None,
            None,
        )
        """Fusion groups in the forward and backward plans; None if torch does not
        show them."""
        self.recorded: Callable[[Records], ContextManager[Any]] | None = None
        """Makes a context manager to compile in, which records the compiler's
        output."""


def build(
    torch: Any, variant: str, model: Any, shape: Shape, backward: bool, trace: bool
) -> Built:
    """Build a variant of the model. Raises: Refused: it cannot run here, with the
    reason. UserError: the model cannot be compiled in this way.
    """
    if variant == "eager":
        return _eager(torch, model)
    if variant in fusers.TORCHSCRIPT:
        return _torchscript(torch, variant, model, shape, backward, trace)
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise _cannot(
            "the model is TorchScript already, and %s compiles Python" % variant
        )
    if variant in AOT:
        return _aot(torch, variant, model, shape)
    return _compiled(torch, model)


def _cannot(why: str, hint: str | None = None) -> Refused:
    return Refused("variant", why, hint, CANNOT_RUN)


def _eager(torch: Any, model: Any) -> Built:
    if not isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return Built(model)
    built = Built(
        eager_twin(torch, model, "bench"), note="TorchScript without optimisation"
    )
    built.around = lambda: unfused(torch)
    return built


def _torchscript(
    torch: Any, variant: str, model: Any, shape: Shape, backward: bool, trace: bool
) -> Built:
    fuser, _ = fusers.choose_fuser(torch, variant)
    is_module = isinstance(model, torch.nn.Module)
    in_training = (
        is_module
        and model.training
        and not isinstance(model, torch.jit.ScriptModule)
    )
    problem = fusers.why_not_timed(
        torch, fuser, on_gpu(torch, model, shape), backward, in_training
    )
    if problem is not None:
        raise _cannot(problem)
    note = "frozen" if fusers.needs_frozen(fuser) and is_module else None
    fusers.switch_on(torch, fuser)
    scripted = to_torchscript(torch, model, shape, trace)
    if fusers.needs_frozen(fuser):
        scripted = frozen(torch, scripted)
    built = Built(scripted, fuser, note)
    built.groups = lambda: _groups_of(torch, [scripted])
    return built


def _aot(torch: Any, variant: str, model: Any, shape: Shape) -> Built:
    try:
        compilers = importlib.import_module("functorch.compile")
    except ImportError as error:
        raise _cannot(
            "functorch.compile cannot be imported: %s" % first_line(error),
            "It is in torch from 1.13 on, and in the package functorch 0.2 for torch 1.12.",
        ) from None
    fuser = fusers.of_graphs(torch, on_gpu(torch, model, shape))
    fusers.switch_on(torch, fuser)
    scripted = _Scripted(torch)
    try:
        if variant == "aot":
            made = compilers.memory_efficient_fusion(model)
        elif variant == "aot-each-call":
            made = _wrapped_anew(compilers.memory_efficient_fusion, model)
        else:
            if isinstance(model, torch.nn.Module):
                make = compilers.aot_module
            else:
                make = compilers.aot_function
            options = {
                "fw_compiler": compilers.ts_compile,
                "bw_compiler": compilers.ts_compile,
            }
            decompositions = getattr(compilers, "default_decompositions", None)
            if decompositions:
                options["decompositions"] = decompositions
            made = make(model, **options)
    except Exception as error:
        raise UserError(variant) from error
    if fuser != "none":
        note = "its graphs run under %s" % fuser
    else:
        note = "its graphs run without a fuser here"
    built = Built(made, fuser, note)
    built.compiled = lambda: scripted.count
    if variant == "aot-each-call":
        built.groups = scripted.groups_of_each_call
    else:
        built.groups = scripted.groups
    return built


def _wrapped_anew(wrap: Callable[[Any], Any], model: Any) -> Callable[..., Any]:
    """Call a new wrapper each time, as modules of xFormers 0.0.12 to 0.0.21 do
    (``NVFused...``)."""

    def call(*arguments: Any) -> Any:
        return wrap(model)(*arguments)

    return call


class _Scripted:
    """The modules that ``ts_compile`` makes: it ends in
    ``torch.jit.optimize_for_inference`` and returns a closure that hides the module
    (torch/_functorch/compilers.py in 2.0 to 2.13; functorch/_src/compilers.py in
    1.13).

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
        """Groups in the graphs: AOTAutograd compiles the forward graph first, then
        the backward graph; neither contains executors of autodiff."""
        forward, _ = _groups_of(self._torch, self._first[:1])
        backward, _ = _groups_of(self._torch, self._first[1:])
        return forward, backward

    def groups_of_each_call(self) -> tuple[int | None, int | None]:
        """(0, 0) for modules that run once: their executor only profiles and makes
        no plan, and torch fails an assertion if the plan is requested."""
        for module in self._first:
            try:
                module._c.get_debug_state()
            except RuntimeError:
                continue
            except AttributeError:
                return None, None
            return self.groups()
        return 0, 0


def _compiled(torch: Any, model: Any) -> Built:
    if not hasattr(torch, "compile"):
        raise _cannot(
            "torch.compile is in torch from 2.0 on; this is torch %s"
            % torch.__version__
        )
    try:
        made = torch.compile(model)
    except (
        Exception
    ) as error:  # an operating system or a Python that it does not support
        raise _cannot("torch.compile: %s" % first_line(error)) from None
    built = Built(made)
    built.compiled = lambda: _dynamo_graphs()
    built.recorded = lambda records: _watched(torch, records)
    return built


@contextlib.contextmanager
def _watched(torch: Any, records: Records) -> Iterator[None]:
    """Context manager: watch the compiler, and restore everything afterwards. Graph
    breaks are logged too: Dynamo keeps no facts about a function that is not
    compiled because of one."""
    watch = fusers.compiler_watch(torch, records)
    watch.start()
    with contextlib.suppress(Exception):  # not in torch 2.0
        torch._logging.set_logs(graph_breaks=True)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            torch._logging.set_logs()
        watch.finish()
        watch.stop()


def _dynamo_graphs() -> int | None:
    """Number of graphs that torch.compile has compiled in this process
    (torch/_dynamo/utils.py, ``counters``)."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return None
    return int(utils.counters["stats"]["unique_graphs"])


def _groups_of(torch: Any, modules: list[Any]) -> tuple[int | None, int | None]:
    """Fusion groups in the plans of forward and backward executors; None if torch
    cannot list them."""
    found: list[int | None] = [0, 0]
    for module in modules:
        try:
            owner = module._c if hasattr(module, "_c") else module
            _count_groups(owner.get_debug_state(), 0, found)
        except (AttributeError, RuntimeError):
            return None, None
    return found[0], found[1]


def _count_groups(state: Any, phase: int, found: list[int | None]) -> None:
    """Add the groups of an executor and of the executors inside it to ``found``,
    indexed by phase (0 forward, 1 backward); None for a phase that cannot be
    counted."""
    for plan in state.execution_plans.values():
        for kind in _GROUPS:
            number = len(list(plan.graph.findAllNodes(kind, True)))
            known = found[phase]
            found[phase] = None if known is None else known + number
        for inner, attribute in (
            (phase, "differentiable_op_executor_states"),
            (1, "grad_executor_states"),
        ):
            try:
                states = getattr(plan.code, attribute)()
            except (
                RuntimeError
            ):  # an executor without a plan yet fails an assertion of torch's
                found[inner] = None
                continue
            for inner_state in states:
                _count_groups(inner_state, inner, found)


LEAST_WARM_UP = 5
"""Least number of warm-up steps: torch profiles in the first, the fuser compiles
forward in the second and backward in the third."""
_MOST_WARM_UP = 30
_STEADY = 1.5
"""A step counts as steady if it takes at most so many times the shortest step
before it."""
_STEADY_STEPS = 3


class Given:
    """The arguments of the steps of one shape.

    Attributes:
        arguments: returns the arguments of the next step.
        sizes: number of different sizes; after that number of steps the same
            arguments are used again.
        fixed: the same arguments are the same objects every time. False where a function of the user's makes
            new ones.
        example: returns those of the first step, always.
    """

    def __init__(
        self,
        arguments: Shape,
        sizes: int = 1,
        fixed: bool = True,
        example: Shape | None = None,
    ) -> None:
        self.arguments = arguments
        self.sizes = sizes
        self.fixed = fixed
        self.example = arguments if example is None else example


class _Kept:
    """Tensors kept between steps: ``starts``, a tensor of ones for each output,
    from which the backward pass starts, and ``leaves``, whose gradients are set to
    None after it."""

    def __init__(self, starts: list[Any], leaves: list[Any]) -> None:
        self.starts = starts
        self.leaves = leaves


class Steps:
    """Steps of a model with the inputs of one shape.

    Args: model: the user's model; its parameters get the gradients. training:
        forward and backward; else the model is called without recording gradients.
        name: the variant's name, for messages. recorded: gradients are recorded;
        None: where there is a backward pass.
    """

    def __init__(
        self,
        torch: Any,
        model: Any,
        given: Given,
        training: bool,
        name: str,
        recorded: bool | None = None,
    ) -> None:
        self._torch = torch
        self.given = given
        self._training = training
        self._recorded = training if recorded is None else recorded
        self._name = name
        self._parameters = parameters_of(model)
        self._kept: dict[int, _Kept] = {}
        self._starts: dict[Any, list[Any]] = {}

    def example(self) -> tuple[Any, ...]:
        """The arguments of the first step.

        Raises: UserError: the user's function failed. Refused: the backward pass is
            to be timed, but neither they nor the model need gradients.
        """
        arguments = arguments_of(self.given.example)
        if self._training and not any(
            tensor.requires_grad
            for tensor in tensors_in(self._torch, arguments) + self._parameters
        ):
            raise Refused(
                "inputs",
                "nothing here requires grad, so there is no backward pass to time",
                "Give an input ':grad' (--input 'float32[8,128]:grad') or a module with parameters, or leave "
                "--backward out.",
            )
        return arguments

    def loop(self, built: Built, steps: int, lead: int = 0) -> float:
        """Seconds of ``steps`` steps, from an idle device to an idle device. Args:
        lead: number of untimed steps before them: after a pause clocks are
        low and caches cold.
        """
        torch = self._torch
        gradients = torch.enable_grad() if self._recorded else torch.no_grad()
        run = self._train if self._training else self._infer
        with gradients, built.around():
            if lead:
                run(built.model, lead)
            self._synchronise()
            began = time.perf_counter()
            run(built.model, steps)
            self._synchronise()
            return time.perf_counter() - began

    def warm_up(
        self, built: Built, after_each_step: Callable[[], object], least: int = 0
    ) -> list[float]:
        """Seconds of each step (random sizes: of a pass over all of them) until
        they are steady.

        Args:
            after_each_step: called after each of them.
            least: least number of steps.
        """
        times: list[float] = []
        needed = max(LEAST_WARM_UP, least)
        while len(times) < max(_MOST_WARM_UP, needed):
            times.append(self.loop(built, self.given.sizes))
            after_each_step()
            if len(times) >= needed:
                shortest = min(times)
                if all(
                    seconds <= _STEADY * shortest
                    for seconds in times[-_STEADY_STEPS:]
                ):
                    break
        return times

    def _synchronise(self) -> None:
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    # If the host is the limit, every microsecond of these loops affects the ratio.

    def _infer(self, model: Any, steps: int) -> None:
        arguments = self.given.arguments
        try:
            for _ in range(steps):
                model(*arguments())
        except Refused:
            raise
        except Exception as error:
            raise UserError(self._name) from error

    def _train(self, model: Any, steps: int) -> None:
        given, backward = self.given.arguments, self._torch.autograd.backward
        tensor_type = self._torch.Tensor
        known = self._kept.get if self.given.fixed else _never
        try:
            for _ in range(steps):
                arguments = given()
                output = model(*arguments)
                if isinstance(output, tensor_type):
                    roots = output
                else:
                    roots = self._roots(output)
                kept = known(id(arguments)) or self._keep(arguments, roots)
                backward(roots, kept.starts)
                for leaf in kept.leaves:
                    leaf.grad = None
        except Refused:
            raise
        except Exception as error:
            raise UserError(self._name) from error

    def _roots(self, output: Any) -> list[Any]:
        roots = []
        for tensor in tensors_in(self._torch, output):
            if tensor.requires_grad:
                roots.append(tensor)
        return roots

    def _keep(self, arguments: tuple[Any, ...], roots: Any) -> _Kept:
        torch = self._torch
        every: Sequence[Any] = [roots] if isinstance(roots, torch.Tensor) else roots
        shapes = tuple(root.shape for root in every)
        if shapes not in self._starts:
            self._starts[shapes] = [torch.ones_like(root) for root in every]
        leaves = []
        for tensor in tensors_in(torch, arguments):
            if tensor.requires_grad and tensor.is_leaf:
                leaves.append(tensor)
        kept = _Kept(self._starts[shapes], leaves + self._parameters)
        if self.given.fixed:
            self._kept[id(arguments)] = kept
        return kept


def _never(_: int) -> None:
    """Default callback: do nothing."""


_RANDOM_SIZES = 20
_MOST_APART = 2
"""Largest change of a size."""
_CHANGED_DIMENSIONS = 2
"""Number of dimensions of an input, from the first, whose sizes change."""


def random_sizes(
    torch: Any, shape: Shape, seed: int, count: int = _RANDOM_SIZES
) -> Given:
    """``count`` sets of inputs near those of ``shape``, in turns.

    The first two sizes of the input with the most dimensions change; so does, in
    other inputs of two or more dimensions, the same size in the same dimension.
    Values are those of the given tensors, repeated where a size grows, so that
    indexes stay in range.

    Raises:
        Refused: no input has two dimensions.
    """
    arguments = shape()
    tensors = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            tensors.append(argument)
    most = max(tensors, key=lambda tensor: tensor.dim(), default=None)
    if most is None or most.dim() < 2:
        raise Refused(
            "inputs",
            "no input has two dimensions, so there is no size that can change: the last is shared with the "
            "parameters",
            "Leave --random-sizes out.",
        )
    changed = range(min(_CHANGED_DIMENSIONS, most.dim() - 1))
    changing = [(dimension, most.size(dimension)) for dimension in changed]
    draw = random.Random(seed)
    sets = []
    for _ in range(count):
        new = {}
        for size in changing:
            new[size] = max(1, size[1] + draw.randint(-_MOST_APART, _MOST_APART))
        sets.append(tuple(_resized(torch, argument, new) for argument in arguments))
    return Given(itertools.cycle(sets).__next__, count, example=lambda: sets[0])


def _resized(torch: Any, value: Any, new: dict[tuple[int, int], int]) -> Any:
    if not isinstance(value, torch.Tensor):
        if tensors_in(torch, value):
            raise Refused(
                "inputs",
                "--random-sizes changes tensors, and not lists or dicts of them",
            )
        return value
    if value.dim() < 2:
        return value
    made = value.detach()
    for (dimension, size), wanted in new.items():
        if dimension < value.dim() - 1 and value.size(dimension) == size:
            index = torch.arange(wanted, device=value.device) % size
            made = made.index_select(dimension, index)
    if made is value or made.shape == value.shape:
        made = made.clone()
    return made.requires_grad_(value.requires_grad)
