"""Delta debugging of a written file: smaller recipes out of a recipe, as long as the failure stays.

The method is Zeller's ddmin over operators, then over outputs and inputs, again until nothing more can go;
inputs become smaller and plainer.

What running a written file came to: its verdict, and what identifies a failure across smaller files.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusiondoc.errors import CannotRun
from fusiondoc.model import count, dataclass
from fusiondoc.repro import (
    DEFINED,
    Input,
    Recipe,
    ScalarSpec,
    Step,
    TensorSpec,
    fill,
    scalar_input,
    tensor_input,
)
from fusiondoc.runner.child import Child
from fusiondoc.whole_files import open_regular

_SILENT = ("PYTORCH_JIT_LOG_LEVEL", "PYTORCH_NVFUSER_DUMP")
"""Variables that make torch print; a file is judged by what it prints itself."""

_VERDICT = re.compile(r"^verdict: (same|different|failed)\b(.*)$", re.MULTILINE)
_STAGE = re.compile(r"^stage: (.*)$", re.MULTILINE)
_DESCRIBE = re.compile(r"^describe: (.*)$", re.MULTILINE)
_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)\b:? ?", re.MULTILINE)
_ASSERT = re.compile(r'INTERNAL ASSERT FAILED at "([^"]+)":(\d+)')
_COMPILER = re.compile(r"CUDA NVRTC compile error: .*?(error: [^\n]*)", re.DOTALL)


@dataclass(frozen=True)
class Outcome:
    """``kind``: same, different, failed, died, "timed out" or "no verdict". ``signature``: what has to stay
    for a failure to be the same one. ``text``: the failure in a line."""

    kind: str
    stage: str
    signature: str
    text: str
    described: Any = None
    interrupted: bool = False

    @property
    def fails(self) -> bool:
        return self.kind in ("different", "failed", "died")


def run_file(python: Path, file: Path, arguments: Sequence[str], timeout: float) -> Outcome:
    """Run a written file in a process of its own and judge what it printed."""
    if not hasattr(os, "killpg"):
        raise CannotRun(
            "files run on Linux and macOS only: this system has no process groups",
            "Write the file without --minimise, and run it yourself.",
        )
    environment = {name: value for name, value in os.environ.items() if name not in _SILENT}
    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        log = Path(folder) / "log"
        command = [str(python), "-u", str(file), *arguments]
        try:
            ending = Child(command, environment, Path(folder), log, timeout).run()
        except OSError as error:
            raise CannotRun(
                f"{python} cannot be started: {error.strerror}", "Choose another interpreter with --python."
            ) from None
        with open_regular(log) as written:
            printed = written.read().decode("utf-8", "replace")
    return judge(printed, ending.exit_status, ending.signal, ending.timed_out, ending.interrupted)


def judge(
    printed: str,
    status: int | None,
    signal: str | None = None,
    timed_out: bool = False,
    interrupted: bool = False,
) -> Outcome:
    """The outcome of a file that printed this and ended so."""
    stage = (_STAGE.findall(printed) or ["start"])[-1]
    verdict = _VERDICT.search(printed)
    described = _DESCRIBE.search(printed)
    if interrupted:
        return Outcome("no verdict", stage, "", "interrupted", interrupted=True)
    if timed_out:
        return Outcome("timed out", stage, "", f"did not end in time, in the {stage}")
    if signal is not None and (verdict is None or verdict[1] == "failed"):
        return Outcome("died", stage, f"died {signal} {stage}", f"died of {signal} in the {stage}")
    if described is not None:
        return Outcome("no verdict", stage, "", "", json.loads(described[1]))
    if verdict is None:
        return Outcome("no verdict", stage, "", f"{_last_line(printed)} (exit status {status})")
    if verdict[1] == "failed":
        message = _message(printed[verdict.end() :])
        return Outcome("failed", stage, f"failed {stage} {normalised(message)}", short(message))
    if verdict[1] == "different":
        first = next((line for line in printed.split("\n") if line.startswith("differs: ")), "")
        sort = re.sub(r"^differs: output \d+ \([^)]*\): ", "", first)
        return Outcome("different", stage, f"different {_sort(sort)}", sort)
    return Outcome("same", stage, "", verdict[0])


def normalised(message: str) -> str:
    """An error without what changes when the graph gets smaller: numbers, names, sizes.

    A failed assertion of torch is known by its place, an NVRTC error by the compiler's first complaint: the
    text around holds the whole kernel.
    """
    place = _ASSERT.search(message)
    if place is not None:
        return f"assert {place[1].rpartition('/')[2]}:{place[2]}"
    compiler = _COMPILER.search(message)
    line = compiler[1] if compiler is not None else short(message)
    line = re.sub(r"\[[^\]]*\]|\([^)]*\)|\"[^\"]*\"|'[^']*'|%[\w.]+", "_", line)
    return re.sub(r"\b0x[0-9a-f]+\b|-?\d+(?:\.\d+)?|\b[TVibfd]\d+\w*", "0", line)


def short(message: str) -> str:
    """The line of an error that says what is wrong."""
    place = _ASSERT.search(message)
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    if place is not None:
        lines = [line for line in lines if place[0] in line]
    compiler = _COMPILER.search(message)
    if compiler is not None:
        return f"CUDA NVRTC compile error: {compiler[1]}"
    return lines[0][:300] if lines else ""


def _message(after: str) -> str:
    """The text of the last exception; the interpreter of TorchScript wraps the real one in its own."""
    starts = list(_ERROR.finditer(after))
    return after[starts[-1].end() :] if starts else _last_line(after)


def _sort(text: str) -> str:
    """The sort of a mismatch, without its figures."""
    return "values" if "largest difference" in text else re.sub(r"-?\d[\d.e+-]*", "0", text)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


_DEVICE = "cpu"


def exposing_all(recipe: Recipe) -> Recipe:
    """With every value of an operator as an output: run once, it tells what the values are."""
    undefined = recipe.undefined()
    names = [n for step in recipe.steps if step.operator for n, _ in step.outputs if n not in undefined]
    return replace(recipe, outputs=tuple(names))


def described_values(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> dict[str, TensorSpec | ScalarSpec]:
    """What the values of :func:`exposing_all` are, from the description that its file printed."""
    device = _device(recipe)
    found: dict[str, TensorSpec | ScalarSpec] = {}
    for name, row in zip(exposing_all(recipe).outputs, rows):
        if "value" in row:
            found[name] = ScalarSpec(row["value"])
        else:
            size, stride = tuple(row["size"]), tuple(row["stride"])
            how = fill(row["dtype"], name, recipe.steps)
            found[name] = TensorSpec(row["dtype"], size, stride, False, device, how)
    return found


def _device(recipe: Recipe) -> str:
    specs = [one.spec for one in recipe.inputs]
    devices = [s.device for s in specs if isinstance(s, TensorSpec) and s.device != _DEVICE]
    return devices[0] if devices else _DEVICE


def subset(
    recipe: Recipe, keep: Sequence[Step], values: Mapping[str, TensorSpec | ScalarSpec]
) -> Recipe | None:
    """Only the operators in ``keep``: values of others become inputs, and what others took become outputs.

    None if nothing is left or a value that is needed cannot be made.
    """
    kept = set(map(id, keep))
    gone = {name for s in recipe.steps if s.operator and id(s) not in kept for name, _ in s.outputs}
    steps = tuple(
        s
        for s in recipe.steps
        if (id(s) in kept if s.operator else s.kind != DEFINED or not gone.intersection(s.inputs))
    )
    lost = [s for s in recipe.steps if s.operator and id(s) not in kept]
    made = {name for step in steps for name, _ in step.outputs}
    undefined = recipe.undefined()
    told = {name for s in steps if s.operator or s.kind == DEFINED for name, _ in s.outputs} - undefined
    taken = {name for step in lost for name in step.inputs}
    outputs = [name for name in recipe.outputs if name in told]
    outputs += [name for s in steps for name, _ in s.outputs if name in told & taken]
    if not outputs:
        return None
    inputs = list(recipe.inputs)
    types = recipe.types()
    for name in dict.fromkeys(name for step in lost for name, _ in step.outputs):
        if any(name in step.inputs for step in steps) and name not in made:
            one = _as_input(name, types, steps, values)
            if one is None:
                return None
            inputs.append(one)
    return replace(recipe, inputs=tuple(inputs), steps=steps, outputs=tuple(dict.fromkeys(outputs))).pruned()


def _as_input(
    name: str, types: Mapping[str, str], steps: Sequence[Step], values: Mapping[str, TensorSpec | ScalarSpec]
) -> Input | None:
    spec = values.get(name)
    if spec is not None:
        return Input(name, types[name], spec, "a result of an operator that was removed")
    return tensor_input(name, types[name], steps, None) or scalar_input(name, types[name], steps, types)


def without_output(recipe: Recipe, number: int) -> Recipe:
    """Without one output, and without what only that output needed."""
    outputs = tuple(name for i, name in enumerate(recipe.outputs) if i != number)
    return replace(recipe, outputs=outputs).pruned()


def sizes(recipe: Recipe) -> list[int]:
    """The sizes above 1 that the inputs have, the largest first."""
    specs = [one.spec for one in recipe.inputs]
    return sorted({n for s in specs if isinstance(s, TensorSpec) for n in s.size if n > 1}, reverse=True)


def resized(recipe: Recipe, before: int, after: int) -> Recipe:
    """With another size in the place of one, wherever it stands: in inputs and in lists of sizes."""
    specs: dict[str, TensorSpec | ScalarSpec] = {}
    for one in recipe.inputs:
        spec = one.spec
        if isinstance(spec, TensorSpec) and before in spec.size and spec.data is None:
            size = tuple(after if n == before else n for n in spec.size)
            specs[one.name] = replace(spec, size=size, stride=_strides(spec, size))
        elif isinstance(spec, ScalarSpec) and isinstance(spec.value, list) and before in spec.value:
            specs[one.name] = ScalarSpec([after if n == before else n for n in spec.value])
    steps = tuple(
        replace(step, attributes=re.sub(rf"\b{before}\b", str(after), step.attributes))
        if step.kind == "prim::Constant" and step.outputs[0][1] == "int[]"
        else step
        for step in recipe.steps
    )
    return replace(recipe.with_inputs(specs), steps=steps)


def _strides(spec: TensorSpec, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """Dense strides in the order that the old ones have; an expanded dimension stays expanded."""
    if spec.stride is None:
        return None
    made, step = list(spec.stride), 1
    for place in sorted(range(len(size)), key=lambda i: (spec.stride or ())[i] * 2 - (spec.size[i] == 1)):
        if spec.stride[place]:
            made[place] = step
            step *= max(size[place], 1)
    return tuple(made)


def plain_strides(recipe: Recipe, name: str) -> Recipe | None:
    """With one input contiguous; None if it is so already."""
    for one in recipe.inputs:
        spec = one.spec
        if one.name == name and isinstance(spec, TensorSpec) and spec.stride is not None:
            plain = _strides(replace(spec, stride=tuple(range(len(spec.size), 0, -1))), spec.size)
            if plain != spec.stride:
                return recipe.with_inputs({name: replace(spec, stride=plain)})
    return None


Run = Callable[[Recipe, bool], Outcome]
"""Runs the file of a recipe; with True it only describes its outputs."""


@dataclass
class Search:
    """``best``: the smallest recipe that still fails as the first did. ``tries``: files that were run."""

    best: Recipe
    first: Outcome
    run: Run
    most: int
    said: Callable[[str], None]
    tries: int = 0
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.values: Mapping[str, TensorSpec | ScalarSpec] = {}
        self._known: dict[Recipe, bool] = {}

    @property
    def over(self) -> bool:
        return self.interrupted or self.tries >= self.most

    def accepts(self, recipe: Recipe | None) -> bool:
        """Whether a smaller recipe fails as the first did; then it is the best."""
        if recipe is None or self.over or recipe == self.best:
            return False
        recipe = replace(recipe, problems=())
        key = replace(recipe, inputs=tuple(replace(one, spec=_hashable(one.spec)) for one in recipe.inputs))
        known = self._known.get(key)
        if known is None:
            self.tries += 1
            outcome = self.run(recipe, False)
            self.interrupted = outcome.interrupted
            known = outcome.fails and outcome.signature == self.first.signature
            self._known[key] = known
            if known:
                self.said(f"try {self.tries}: fails the same with {_size(recipe)}")
        if known:
            self.best = recipe
        return known

    def minimise(self) -> Recipe:
        """The smallest recipe found."""
        self._describe()
        before = None
        while before != self.best and not self.over:
            before = self.best
            self._operators()
            self._outputs()
            self._sizes()
            self._strides()
        return self.best

    def smallest_part(self) -> Recipe:
        """As few operators as fail, with inputs as they are: sooner found than the smallest recipe."""
        self._describe()
        self._operators()
        return self.best

    def _describe(self) -> None:
        """What the values between the operators are: the log does not tell of all of them."""
        self.tries += 1
        outcome = self.run(exposing_all(self.best), True)
        self.interrupted = outcome.interrupted
        if outcome.described is not None:
            self.values = described_values(self.best, outcome.described)

    def _operators(self) -> None:
        """ddmin: keep one of n parts, or all but one of them, with ever smaller parts."""
        parts = 2
        while not self.over:
            steps = [step for step in self.best.steps if step.operator]
            if len(steps) < 2:
                return
            parts = min(parts, len(steps))
            chunks = [steps[i * len(steps) // parts : (i + 1) * len(steps) // parts] for i in range(parts)]
            if any(self._keep(chunk) for chunk in chunks):
                parts = 2
            elif parts > 2 and any(self._keep([s for s in steps if s not in chunk]) for chunk in chunks):
                parts = max(parts - 1, 2)
            elif parts == len(steps):
                return
            else:
                parts *= 2

    def _keep(self, steps: list[Step]) -> bool:
        return self.accepts(subset(self.best, steps, self.values))

    def _outputs(self) -> None:
        number = len(self.best.outputs) - 1
        while number >= 0 and len(self.best.outputs) > 1 and not self.over:
            self.accepts(without_output(self.best, min(number, len(self.best.outputs) - 1)))
            number = min(number, len(self.best.outputs)) - 1

    def _sizes(self) -> None:
        for size in sizes(self.best):
            for smaller in (1, 2, size // 8, size // 4, size // 2):
                if 0 < smaller < size and self.accepts(resized(self.best, size, smaller)):
                    break

    def _strides(self) -> None:
        for one in self.best.inputs:
            self.accepts(plain_strides(self.best, one.name))


def _hashable(spec: TensorSpec | ScalarSpec) -> TensorSpec | ScalarSpec:
    return ScalarSpec(repr(spec.value)) if isinstance(spec, ScalarSpec) else spec


def _size(recipe: Recipe) -> str:
    return count(recipe.operators, "operator")
