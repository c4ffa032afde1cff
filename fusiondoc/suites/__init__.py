"""Programs that ``fusiondoc bench --suite`` times, and the table of their cases:
sizes, variants, and the figures that their authors published.

``timed_programs`` imports torch and runs in children, as any target does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.bench import EAGER, FORWARD, MEMORY, SPEED, TRAINING, Published

PROGRAMS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """A program on inputs of some sizes."""

    block: str
    sizes: str
    """"static" and "random", or sizes and dtype."""
    program: str
    """FILE.py:NAME, the file in this folder."""
    inputs: tuple[str, ...]
    """Texts of ``--input``."""
    random: bool = False
    """Every step gets other sizes near them."""

    @property
    def name(self) -> str:
        return f"{self.block} {self.sizes}"

    @property
    def target(self) -> str:
        return str(PROGRAMS / self.program)


@dataclass(frozen=True)
class SuitePlan:
    """The cases of a suite.

    Attributes:
        cases: with the authors' sizes.
        small: the same programs with sizes that a CPU does in milliseconds.
    """

    name: str
    about: str
    variants: tuple[str, ...]
    cases: tuple[Case, ...]
    small: tuple[Case, ...]
    published: tuple[Published, ...]
    why_different: tuple[str, ...]

    def chosen(self, patterns: Sequence[str], small: bool) -> tuple[Case, ...]:
        """The cases that a pattern names: a whole name, a part of it, or with
        ``*``.

        Raises:
            UsageError: a pattern names none.
        """
        cases = self.small if small else self.cases
        if not patterns:
            return cases
        found: list[Case] = []
        for pattern in patterns:
            matching = [case for case in cases if _matches(case.name, pattern)]
            if not matching:
                names = [case.name for case in cases]
                raise UsageError(
                    f"no case of the suite {self.name} is named '{pattern}'",
                    did_you_mean(pattern, names),
                )
            found += matching
        return tuple(case for case in cases if case in found)


def _matches(name: str, pattern: str) -> bool:
    if "*" in pattern:
        return fnmatchcase(name, pattern)
    return name == pattern or pattern in name


def _tensor(dtype: str, *sizes: int, grad: bool = True) -> str:
    return f"{dtype}[{','.join(map(str, sizes))}]" + (":grad" if grad else "")


# -- the nvFuser tutorial ---------------------------------------------------------------------------------
# (pytorch.org/tutorials/intermediate/nvfuser_intro_tutorial.html; random sizes: "nvFuser & Dynamic Shapes")

_BLOCKS = {"composite": 3, "primitive": 3, "rms_norm": 2}
"""How many vectors each takes: weight, bias, and a second bias where there is a
shift."""


def _tutorial(batch: int, length: int, width: int) -> tuple[Case, ...]:
    cases = []
    for block, vectors in _BLOCKS.items():
        program = f"timed_programs.py:{block}"
        inputs = _block(batch, length, width, vectors)
        cases += [
            Case(block, "static", program, inputs),
            Case(block, "random", program, inputs, random=True),
        ]
    return tuple(cases)


def _block(batch: int, length: int, width: int, vectors: int) -> tuple[str, ...]:
    activation = _tensor("float32", batch, length, width)
    return (activation, activation, *[_tensor("float32", width)] * vectors)


_FIVE = "geometric mean of five GPUs, consumer to data centre, torch 1.12"
_PAGE = "the GPU that made the tutorial's page (not named), torch 1.12"


def _of_tutorial(block: str, variant: str, value: float, what: str) -> Published:
    return Published(f"{block} static", variant, TRAINING, SPEED, value, what)


TUTORIAL = SuitePlan(
    "tutorial",
    "the blocks of the nvFuser tutorial: bias, dropout, residual and a normalisation",
    (EAGER, "nvfuser", "nnc", "aot", "inductor"),
    _tutorial(64, 128, 1024),
    _tutorial(4, 8, 32),
    (
        _of_tutorial("composite", "nvfuser", 1.64, _FIVE),
        _of_tutorial("composite", "nvfuser", 242.45 / 189.30, _PAGE),
        _of_tutorial("primitive", "nvfuser", 124.63 / 61.55, _PAGE),
        _of_tutorial("primitive", "aot", 140.99 / 61.55, _PAGE),
        _of_tutorial("rms_norm", "nvfuser", 2.68, _FIVE),
        _of_tutorial("rms_norm", "aot", 3.36, _FIVE),
        _of_tutorial("rms_norm", "nvfuser", 177.76 / 83.71, _PAGE),
        _of_tutorial("rms_norm", "aot", 213.81 / 83.71, _PAGE),
    ),
    (
        "The tutorial's figures are of 2022: torch 1.12 with its eager kernels and its nvFuser, on five GPUs "
        "whose geometric mean is 850 eager steps a second of the composite block.",
        "The faster the GPU, the more of a short step is the host's work: starting operators, autograd, the "
        "guards of TorchScript. Fusing saves memory traffic, so it gains least where the GPU is waiting; the "
        'tutorial says the same of its A100. "GPU busy" shows which it is.',
        "The tutorial times one loop of 100 steps; here rounds of all variants take turns, each variant in a "
        "process of its own.",
    ),
)


# -- xFormers ---------------------------------------------------------------------------------------------

_SHAPES = (
    *((8, 256, 512), (8, 512, 1024), (4, 1024, 1024)),
    *((2, 2048, 2048), (1, 2048, 12288), (2, 4096, 4096)),
)
_SMALL_SHAPES = ((2, 8, 32), (2, 16, 64))
_DTYPES = ("float16", "float32")
_ACTIVATIONS = ("relu", "gelu", "squared_relu")
_LAYER_SHAPES = ((8, 512, 1024), (2, 2048, 2048))
_LAYERS = ("feed_forward", "attention", "block")


def _xformers(
    shapes: Sequence[tuple[int, int, int]],
    dtypes: Sequence[str],
    layer_shapes: Sequence[tuple[int, int, int]],
) -> tuple[Case, ...]:
    """Pattern by pattern, with bias and without, each over all shapes in each
    dtype."""
    cases = []
    for pattern, residual, norm in (
        *((f"{activation}_dropout", False, False) for activation in _ACTIVATIONS),
        ("dropout_residual", True, False),
        ("dropout_residual_norm_pre", True, True),
        ("dropout_residual_norm_post", True, True),
    ):
        for bias in (True, False):
            name = f"bias_{pattern}" if bias else pattern
            for dtype in dtypes:
                for shape in shapes:
                    activation, vector = (
                        _tensor(dtype, *shape),
                        _tensor(dtype, shape[2]),
                    )
                    inputs = [activation, *([activation] if residual else [])]
                    if norm:
                        inputs += [vector, vector]
                    if bias:
                        inputs.append(vector)
                    cases.append(_case(name, name, shape, dtype, tuple(inputs)))
    for kind in _LAYERS:
        for dtype in dtypes:
            for shape in layer_shapes:
                program = f"{kind}_{shape[2]}_{dtype}"
                cases.append(
                    _case(kind, program, shape, dtype, (_tensor(dtype, *shape),))
                )
    return tuple(cases)


def _case(
    block: str,
    program: str,
    shape: tuple[int, int, int],
    dtype: str,
    inputs: tuple[str, ...],
) -> Case:
    sizes = "x".join(map(str, shape))
    return Case(block, f"{sizes} {dtype}", f"timed_programs.py:{program}", inputs)


_PATTERNS = "*dropout*"
"""Every case but those of layers, of which nothing was published."""

_PLOTS = "the most of its plots; one GPU (not named), torch 1.12 or 1.13"

XFORMERS = SuitePlan(
    "xformers",
    "the patterns that xFormers fused by memory_efficient_fusion, and whole layers",
    (EAGER, "nvfuser", "nnc", "aot", "aot-each-call", "inductor"),
    _xformers(_SHAPES, _DTYPES, _LAYER_SHAPES),
    _xformers(_SMALL_SHAPES, ("float32",), _SMALL_SHAPES[1:]),
    (
        Published(_PATTERNS, "aot", FORWARD, SPEED, 3.5, _PLOTS),
        Published(_PATTERNS, "aot", TRAINING, SPEED, 2.2, _PLOTS),
        Published(_PATTERNS, "aot", TRAINING, MEMORY, 1.6, _PLOTS),
    ),
    (
        "xFormers publishes the most over its shapes, dtypes and patterns, and so does the line above: it is "
        "of the cases that were run.",
        "Its modules wrap the function anew in every call. functorch 0.2 had one cache for all wrappers, so "
        "that this compiled once; from torch 1.13 on each wrapper has its own, and the variant "
        '"aot-each-call" shows what its modules would do now.',
        "It times single calls by triton.testing.do_bench, which clears the GPU's cache before each and "
        "gives the host time to run ahead meanwhile; here a step is one of a loop, as in training.",
    ),
)

SUITES = {suite.name: suite for suite in (TUTORIAL, XFORMERS)}


def suite_named(name: str) -> SuitePlan:
    """Raises UsageError for an unknown name."""
    if name not in SUITES:
        raise UsageError(f"there is no suite '{name}'", did_you_mean(name, SUITES))
    return SUITES[name]


def listing() -> str:
    """All suites with their cases."""
    lines = []
    for plan in SUITES.values():
        lines += [
            f"{plan.name}: {plan.about}",
            f"  variants: {', '.join(plan.variants)}",
        ]
        lines += [f"  {len(plan.cases)} cases; with --small {len(plan.small)}"]
        blocks: dict[str, list[str]] = {}
        for case in plan.cases:
            blocks.setdefault(case.block, []).append(case.sizes)
        for block, sizes in blocks.items():
            lines.append(f"    {block}: {', '.join(sizes)}")
    return "\n".join(lines) + "\n"
