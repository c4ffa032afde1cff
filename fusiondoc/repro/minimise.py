"""Delta debugging of a written file: smaller recipes, as long as the failure stays.
The method is Zeller's ddmin over operators, then over outputs and inputs, repeated
until nothing more can be removed; inputs are made smaller and plainer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fusiondoc.model import count, dataclass
from fusiondoc.repro import ReproRecipe, ReproStep, ScalarSpec, TensorSpec
from fusiondoc.repro.judge import ReproOutcome
from fusiondoc.repro.smaller import (
    described_values,
    exposing_all,
    plain_strides,
    resized,
    sizes,
    subset,
    without_output,
)

Run = Callable[[ReproRecipe, bool], ReproOutcome]
"""Runs the file of a recipe; with True it only describes its outputs."""


@dataclass
class RecipeSearch:
    """``best``: the smallest recipe that still fails as the first did. ``tries``:
    files that were run."""

    best: ReproRecipe
    first: ReproOutcome
    run: Run
    most: int
    notify: Callable[[str], None]
    tries: int = 0
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.values: Mapping[str, TensorSpec | ScalarSpec] = {}
        self._known: dict[ReproRecipe, bool] = {}

    @property
    def over(self) -> bool:
        return self.interrupted or self.tries >= self.most

    def accepts(self, recipe: ReproRecipe | None) -> bool:
        """Run a smaller recipe; if it fails as the first did, keep it as the best
        and return True."""
        if recipe is None or self.over or recipe == self.best:
            return False
        recipe = replace(recipe, problems=())
        inputs = []
        for input_ in recipe.inputs:
            inputs.append(replace(input_, spec=_hashable(input_.spec)))
        key = replace(recipe, inputs=tuple(inputs))
        known = self._known.get(key)
        if known is None:
            self.tries += 1
            outcome = self.run(recipe, False)
            self.interrupted = outcome.interrupted
            known = outcome.fails and outcome.signature == self.first.signature
            self._known[key] = known
            if known:
                self.notify(
                    f"try {self.tries}: fails the same with {_size(recipe)}"
                )
        if known:
            self.best = recipe
        return known

    def minimise(self) -> ReproRecipe:
        """Find the smallest recipe."""
        self._describe()
        before = None
        while before != self.best and not self.over:
            before = self.best
            self._operators()
            self._outputs()
            self._sizes()
            self._strides()
        return self.best

    def smallest_part(self) -> ReproRecipe:
        """Find as few operators as still fail, with unchanged inputs: faster than
        to find the smallest recipe."""
        self._describe()
        self._operators()
        return self.best

    def _describe(self) -> None:
        """Get the values between the operators: the log does not hold all of
        them."""
        self.tries += 1
        outcome = self.run(exposing_all(self.best), True)
        self.interrupted = outcome.interrupted
        if outcome.described is not None:
            self.values = described_values(self.best, outcome.described)

    def _operators(self) -> None:
        """ddmin: keep one of n parts, or all but one of them, with ever smaller
        parts."""
        parts = 2
        while not self.over:
            steps = [step for step in self.best.steps if step.operator]
            if len(steps) < 2:
                return
            parts = min(parts, len(steps))
            chunks = []
            for i in range(parts):
                chunks.append(
                    steps[i * len(steps) // parts : (i + 1) * len(steps) // parts]
                )
            if any(self._keep(chunk) for chunk in chunks):
                parts = 2
            elif parts > 2 and any(
                self._keep([s for s in steps if s not in chunk]) for chunk in chunks
            ):
                parts = max(parts - 1, 2)
            elif parts == len(steps):
                return
            else:
                parts *= 2

    def _keep(self, steps: list[ReproStep]) -> bool:
        return self.accepts(subset(self.best, steps, self.values))

    def _outputs(self) -> None:
        number = len(self.best.outputs) - 1
        while number >= 0 and len(self.best.outputs) > 1 and not self.over:
            self.accepts(
                without_output(self.best, min(number, len(self.best.outputs) - 1))
            )
            number = min(number, len(self.best.outputs)) - 1

    def _sizes(self) -> None:
        for size in sizes(self.best):
            for smaller in (1, 2, size // 8, size // 4, size // 2):
                if 0 < smaller < size and self.accepts(
                    resized(self.best, size, smaller)
                ):
                    break

    def _strides(self) -> None:
        for input_ in self.best.inputs:
            self.accepts(plain_strides(self.best, input_.name))


def _hashable(spec: TensorSpec | ScalarSpec) -> TensorSpec | ScalarSpec:
    if isinstance(spec, ScalarSpec):
        return ScalarSpec(repr(spec.value))
    return spec


def _size(recipe: ReproRecipe) -> str:
    return count(recipe.operators, "operator")
