"""A step of ``fusiondoc bench`` and the loop of steps that is timed: as little beside the model as in a loop
written by hand; and ``--random-sizes``: inputs of other sizes for every step.

Those are as in the dynamic part of the nvFuser tutorial: the first two sizes are changed by -2 to 2, twenty
times, and the last, which parameters share, never
(pytorch.org/tutorials/intermediate/nvfuser_intro_tutorial.html, "nvFuser & Dynamic Shapes").
"""

from __future__ import annotations

import itertools
import random
import time
from typing import Any, Callable, Sequence

from .benchmark_variants import Built
from .failures import Refused, UserError
from .pass_inputs import Shape, arguments_of, parameters_of, tensors_in

LEAST_WARM_UP = 5
"""Steps: nvFuser profiles in the first, compiles forward in the second and backward in the third."""
MOST_WARM_UP = 30
STEADY = 1.5
"""A step is steady that takes no longer than so many times the shortest of those before it."""
STEADY_STEPS = 3


class Given:
    """What the steps of one shape get.

    Attributes:
        arguments: gives those of the next step.
        sizes: after so many steps they come again; each has other sizes.
        fixed: a tuple that was given is given again as the same object. False where a function of the user's
            makes new ones.
        example: gives those of the first step, always.
    """

    def __init__(
        self, arguments: Shape, sizes: int = 1, fixed: bool = True, example: Shape | None = None
    ) -> None:
        self.arguments = arguments
        self.sizes = sizes
        self.fixed = fixed
        self.example = arguments if example is None else example


class _Kept:
    """What a step needs beside its arguments: ``starts``, ones of each output, from which the backward pass
    starts, and ``leaves``, whose gradients are set to None after it."""

    def __init__(self, starts: list[Any], leaves: list[Any]) -> None:
        self.starts = starts
        self.leaves = leaves


class Steps:
    """Steps of a model with the inputs of one shape.

    Args:
        model: as the user gave it; its parameters get the gradients.
        training: forward and backward; else the model is called without recording gradients.
        name: of the variant, for messages.
        recorded: gradients are recorded; None: where there is a backward pass.
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

        Raises:
            UserError: the user's function failed.
            Refused: nothing of them, nor of the model, has a gradient, and the backward pass is to be timed.
        """
        arguments = arguments_of(self.given.example)
        if self._training and not any(
            tensor.requires_grad for tensor in tensors_in(self._torch, arguments) + self._parameters
        ):
            raise Refused(
                "inputs",
                "nothing here requires grad, so there is no backward pass to time",
                "Give an input ':grad' (--input 'float32[8,128]:grad') or a module with parameters, or leave "
                "--backward out.",
            )
        return arguments

    def loop(self, built: Built, steps: int, lead: int = 0) -> float:
        """Seconds that ``steps`` steps take, from an idle device to an idle device.

        Args:
            lead: steps before them, of which the time does not count: after a pause clocks are low and
                caches cold.
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

    def warm_up(self, built: Built, tell: Callable[[], object], least: int = 0) -> list[float]:
        """Seconds of each step (random sizes: of a pass over all of them) until they are steady.

        Args:
            tell: is called after each.
            least: so many at least.
        """
        times: list[float] = []
        needed = max(LEAST_WARM_UP, least)
        while len(times) < max(MOST_WARM_UP, needed):
            times.append(self.loop(built, self.given.sizes))
            tell()
            if len(times) >= needed:
                shortest = min(times)
                if all(one <= STEADY * shortest for one in times[-STEADY_STEPS:]):
                    break
        return times

    def _synchronise(self) -> None:
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    # Where the host is the limit, every microsecond of these loops is in the ratio.

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
                roots = output if isinstance(output, tensor_type) else self._roots(output)
                kept = known(id(arguments)) or self._keep(arguments, roots)
                backward(roots, kept.starts)
                for one in kept.leaves:
                    one.grad = None
        except Refused:
            raise
        except Exception as error:
            raise UserError(self._name) from error

    def _roots(self, output: Any) -> list[Any]:
        return [one for one in tensors_in(self._torch, output) if one.requires_grad]

    def _keep(self, arguments: tuple[Any, ...], roots: Any) -> _Kept:
        torch = self._torch
        every: Sequence[Any] = [roots] if isinstance(roots, torch.Tensor) else roots
        shapes = tuple(root.shape for root in every)
        if shapes not in self._starts:
            self._starts[shapes] = [torch.ones_like(root) for root in every]
        leaves = [one for one in tensors_in(torch, arguments) if one.requires_grad and one.is_leaf]
        kept = _Kept(self._starts[shapes], leaves + self._parameters)
        if self.given.fixed:
            self._kept[id(arguments)] = kept
        return kept


def _never(_: int) -> None:
    """No step is known."""


RANDOM_SIZES = 20
MOST_APART = 2
"""A size changes by at most so much."""
CHANGED_PLACES = 2
"""So many sizes of an input change: the first ones."""


def random_sizes(torch: Any, shape: Shape, seed: int, count: int = RANDOM_SIZES) -> Given:
    """``count`` sets of inputs near those of ``shape``, in turns.

    What is equal changes alike: the first two sizes of the input with the most dimensions, and in other
    inputs of two or more dimensions the same size at the same place. Values are those of the given tensors,
    repeated where a size grows, so that indexes stay in range.

    Raises:
        Refused: no input has two dimensions.
    """
    arguments = shape()
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    most = max(tensors, key=lambda one: one.dim(), default=None)
    if most is None or most.dim() < 2:
        raise Refused(
            "inputs",
            "no input has two dimensions, so there is no size that can change: the last is shared with the "
            "parameters",
            "Leave --random-sizes out.",
        )
    changing = [(place, most.size(place)) for place in range(min(CHANGED_PLACES, most.dim() - 1))]
    draw = random.Random(seed)
    sets = []
    for _ in range(count):
        new = {one: max(1, one[1] + draw.randint(-MOST_APART, MOST_APART)) for one in changing}
        sets.append(tuple(_resized(torch, one, new) for one in arguments))
    return Given(itertools.cycle(sets).__next__, count, example=lambda: sets[0])


def _resized(torch: Any, value: Any, new: dict[tuple[int, int], int]) -> Any:
    if not isinstance(value, torch.Tensor):
        if tensors_in(torch, value):
            raise Refused("inputs", "--random-sizes changes tensors, and not lists or dicts of them")
        return value
    if value.dim() < 2:
        return value
    made = value.detach()
    for (place, size), wanted in new.items():
        if place < value.dim() - 1 and value.size(place) == size:
            index = torch.arange(wanted, device=value.device) % size
            made = made.index_select(place, index)
    if made is value or made.shape == value.shape:
        made = made.clone()
    return made.requires_grad_(value.requires_grad)
