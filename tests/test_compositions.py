"""Operators that Inductor leaves to eager code, written with others: what is
written, and that torch computes the same with it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from running import python_apart, write

from fusiondoc.changes.by_composition import by_composition
from fusiondoc.changes.edits import changed_text
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.fusers.composition import Composition
from fusiondoc.fusers.inductor.compositions import COMPOSITIONS, compositions_of

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"


def titled(one: Composition) -> str:
    return f"{one.call.partition('(')[0]} {one.inputs}"


EVERY = pytest.mark.parametrize("one", COMPOSITIONS, ids=titled)


def called(one: Composition) -> str:
    """A function that makes the call, with the arguments that are tensors as its
    own."""
    wanted = ast.parse(one.call, mode="eval").body
    given = ast.parse(f"f({one.inputs})", mode="eval").body
    assert isinstance(wanted, ast.Call) and isinstance(given, ast.Call)
    texts = {key.arg: ast.unparse(key.value) for key in given.keywords if key.arg}
    tensors = [name for name, text in texts.items() if text.startswith("torch.")]
    first = (
        ast.unparse(wanted.args[0])
        if not isinstance(wanted.args[0], ast.Name)
        else ""
    )
    arguments = ", ".join(
        f"{n}={n}" if n in tensors else f"{n}={texts[n]}" for n in texts
    )
    called = f"{ast.unparse(wanted.func)}({first or arguments})"
    return f"{HEAD}def f({', '.join(tensors)}):\n    return {called}\n"


def rewritten(text: str, compositions: Any = COMPOSITIONS) -> str | None:
    file = parsed_text(text, "m.py")
    assert file is not None
    line = max(n for n, own in enumerate(text.split("\n"), 1) if "return" in own)
    found = list(by_composition(file, line, compositions))
    return changed_text(text, found[0].edits) if found else None


def of_text(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["f"]


def values_of(one: Composition, dtype: Any) -> list[Any]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    given = eval(f"dict({one.inputs})", {"torch": torch})
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    return [
        cast(value, dtype).requires_grad_(bears_gradients(value))
        for value in tensors
    ]


def bears_gradients(value: Any) -> bool:
    return bool(value.is_floating_point() or value.is_complex())


def cast(value: Any, dtype: Any) -> Any:
    if not bears_gradients(value):
        return value
    wanted = dtype.to_complex() if value.is_complex() else dtype
    return value.detach().to(wanted)


def results(text: str, one: Composition, dtype: Any) -> list[Any]:
    """The outputs and the gradients of a function."""
    torch = pytest.importorskip("torch")
    values = values_of(one, dtype)
    made = of_text(text)(*values)
    outputs = list(made) if isinstance(made, tuple) else [made]
    bearing = [value for value in outputs if value.requires_grad]
    parts = [
        torch.view_as_real(value) if value.is_complex() else value
        for value in bearing
    ]
    if parts:
        torch.manual_seed(1)
        sum((part * torch.randn_like(part)).sum() for part in parts).backward()
    return [*outputs, *(value.grad for value in values if value.grad is not None)]


@pytest.mark.torch
@EVERY
def test_both_ways_compute_the_same(one: Composition) -> None:
    torch = pytest.importorskip("torch")
    text = called(one)
    changed = rewritten(text, [one])
    assert changed is not None and changed != text
    for dtype in (torch.float64, torch.float32):
        before, after = results(text, one, dtype), results(changed, one, dtype)
        assert [value.shape for value in before] == [value.shape for value in after]
        for first, second in zip(before, after):
            assert first.dtype == second.dtype
            torch.testing.assert_close(
                second, first, **(EQUAL if one.exact else {})
            )


EQUAL = {"rtol": 0, "atol": 0}
MODULE = """\
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {0}

    def forward(self, x):
        return self.inner(x)


f = M()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("made", "shape"),
    [
        ("torch.nn.AdaptiveAvgPool2d((4, 2))", (2, 3, 8, 8)),
        ("torch.nn.AdaptiveAvgPool2d(4)", (2, 3, 8, 8)),
        ("torch.nn.AdaptiveMaxPool1d(4)", (2, 3, 8)),
        ("torch.nn.MaxPool2d(2)", (2, 3, 8, 6)),
        ("torch.nn.MaxPool2d(2, stride=2)", (2, 3, 8, 6)),
        ("torch.nn.MaxPool2d(kernel_size=(4, 2), stride=(4, 2))", (2, 3, 8, 6)),
        ("torch.nn.EmbeddingBag(9, 4, mode='sum')", (5, 3)),
        ("torch.nn.EmbeddingBag(9, 4)", (5, 3)),
    ],
)
def test_a_module_is_written_by_its_arguments(
    made: str, shape: tuple[int, ...]
) -> None:
    torch = pytest.importorskip("torch")
    text = HEAD + MODULE.format(made)
    changed = rewritten(text)
    assert changed is not None and "self.inner(x)" not in changed
    x = torch.randint(0, 9, shape) if "Bag" in made else torch.randn(shape)
    torch.manual_seed(0)
    before = of_text(text)(x)
    torch.manual_seed(0)
    torch.testing.assert_close(of_text(changed)(x), before)


@pytest.mark.parametrize(
    "made", ["torch.nn.Bilinear(4, 5, 3)", "torch.nn.Bilinear(4, 5, 3, bias=False)"]
)
def test_a_module_of_two_tensors_has_its_own_bias(made: str) -> None:
    text = HEAD + MODULE.format(made).replace("(x)", "(x, y)").replace(
        "self, x", "self, x, y"
    )
    changed = rewritten(text)
    assert (
        changed is not None
        and "F.linear(y, self.inner.weight.flatten(0, 1))" in changed
    )
    assert ("+ self.inner.bias" in changed) is ("False" not in made)


@pytest.mark.parametrize(
    "line",
    [
        "torch.topk(x, 2)",
        "torch.topk(x, k)",
        "self.topk(x, 1)",
        "mine.topk(x, 1)",
        "torch.topk(x, 1, sorted=False)",
        "torch.topk(*x)",
        "torch.topk(x, 1, **more)",
        "F.max_pool2d(x, 3, stride=2)",
        "F.max_pool2d(x, 2, padding=1)",
        "F.max_pool2d(x, 2, return_indices=True)",
        "F.adaptive_avg_pool2d(x, (None, 4))",
        "F.adaptive_avg_pool2d(x, size)",
        "F.embedding_bag(x, w, offsets)",
        "F.embedding_bag(x, w, mode='mean', padding_idx=0)",
        "F.embedding_bag(x, w, mode=mode)",
        "F.bilinear(x, y, w, b, 1)",
        "torch.addbmm(x, y, z, alpha=2)",
        "F.pad(x, (1, 1))",
        "F.pad(x, (1, 1), mode='reflect')",
        "torch.searchsorted(x, y, out_int32=True)",
        "torch.view_as_real(x)",
        "torch.view_as_real(x + y)",
    ],
)
def test_what_has_other_arguments_stays(line: str) -> None:
    assert rewritten(f"{HEAD}import mine\n\ndef f(x):\n    return {line}\n") is None


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("x.topk(k=1, dim=1)", "torch.max(x, 1, True)"),
        ("torch.view_as_real(x[0] * y)", "parts_of_product(x[0], y)"),
        (
            "(x + y).abs() * 2",
            "torch.linalg.vector_norm(torch.view_as_real(x + y), dim=-1) * 2",
        ),
    ],
)
def test_operands_stand_as_they_do_in_the_program(line: str, wanted: str) -> None:
    changed = rewritten(f"{HEAD}def f(x, y):\n    return {line}\n")
    assert changed is not None and changed.rstrip().endswith(f"return {wanted}")


def test_every_operator_is_named_without_its_overload_and_no_custom_one() -> None:
    for one in COMPOSITIONS:
        assert all(re.fullmatch(r"aten::\w+", op) for op in one.replaces)
        assert one in compositions_of(next(iter(one.replaces)))
    assert compositions_of("lab::twice") == ()


VIEWS = {
    "aten::view_as_real",
    "aten::view_as_complex",
    "aten::slice",
    "aten::select",
    "aten::alias",
}
"""Calls of complex tensors that move nothing."""
OF_GRADIENTS = {
    "aten::_conj",
    "aten::clone",
    "aten::mul",
    "aten::add",
    "aten::view",
}
"""Those of the gradients of a complex input, which the composition leaves as they
were."""


def program(text: str, one: Composition) -> str:
    given = f"given = dict({one.inputs})\n"
    tensors = "tensors = {n: v for n, v in given.items() if isinstance(v, torch.Tensor)}\n"
    learns = "v.is_floating_point() or v.is_complex()"
    return f"{text}\n{given}{tensors}values = [v.requires_grad_({learns}) for n, v in tensors.items()]\n"


@pytest.mark.torch
@pytest.mark.nightly  # lowers a hundred graphs; what is written, and what it computes, is held above
def test_inductor_lowers_what_is_written_and_makes_calls_of_what_it_replaces(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    texts = [
        (called(one), rewritten(called(one), [one]) or "") for one in COMPOSITIONS
    ]
    programs = [
        program(text, one)
        for one, pair in zip(COMPOSITIONS, texts)
        for text in pair
    ]
    write(tmp_path, "programs.json", json.dumps(programs))
    done = python_apart(
        Path(__file__).parent / "lowered_calls.py", tmp_path / "programs.json"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [set(one) for one in json.loads(done.stdout.splitlines()[-1])]
    assert len(answers) == 2 * len(COMPOSITIONS)
    others: list[object] = []
    for one, before, after in zip(COMPOSITIONS, answers[::2], answers[1::2]):
        calls_left = after - VIEWS - OF_GRADIENTS
        if not before & one.replaces or calls_left:
            others.append((one.call, before, one.after, calls_left))
    assert not others, "\n".join(map(str, others))
