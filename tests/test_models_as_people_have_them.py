"""Arguments by name, models that a target makes, frozen and compiled ones, archives
of torch.export."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from fusiondoc.captures.request import parse_target
from fusiondoc.errors import UsageError

PROGRAM = """
    from typing import Dict, Optional
    import torch

    class Net(torch.nn.Module):
        def __init__(self, size: int, bias: bool = True):
            super().__init__()
            self.fc = torch.nn.Linear(size, size, bias=bias)

        def forward(self, x, mask: Optional[torch.Tensor] = None, scale: Optional[torch.Tensor] = None):
            y = torch.tanh(self.fc(x) * 2.0) + 1.0
            if scale is not None:
                y = y * scale
            return {"out": torch.sigmoid(y) * y}

    def make_model(size: int = 8):
        return Net(size)

    @torch.compile
    def compiled(x):
        return torch.tanh(x * 2.0 + 1.0) * x

    inputs = {"x": torch.randn(4, 8), "scale": torch.ones(8)}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


def _report(fusiondoc: Run, *args: object) -> dict[str, Any]:
    done = fusiondoc("diagnose", *args, "--fuser", "nnc", "--format", "json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_function_is_called_and_inputs_are_given_by_name(
    fusiondoc: Run, program: Path
) -> None:
    report = _report(fusiondoc, "program.py:make_model()", "--verify", "--time")
    assert report["target"]["name"] == "program.py:make_model()"
    alone = {row["op"]: row["ran"] for row in report["unfused"]}
    assert alone["aten::mul"] is not False, (
        "y * scale ran, because the named scale was given"
    )
    assert report["steps"] is not None, report["steps_note"]
    assert report["verification"] and all(
        row["same"] for row in report["verification"]
    )


def test_a_model_that_returns_a_dictionary_is_traced_and_that_is_said(
    fusiondoc: Run, program: Path
) -> None:
    done = fusiondoc(
        "diagnose", "program.py:Net(8, bias=False)", "--trace", "--fuser", "nnc"
    )
    assert done.returncode == 0, done.stderr
    assert "strict=False" in done.stderr
    assert "aten::sigmoid" in done.stdout, (
        "all of forward was traced, with the mask that was left out"
    )


def test_what_to_do_about_a_model_that_returns_an_object() -> None:
    import collections

    import torch

    from fusiondoc.probe import UserError
    from fusiondoc.probe.models import to_torchscript

    class Result:
        pass

    with pytest.raises(UserError) as raised:
        to_torchscript(
            torch, lambda x: Result(), lambda: (torch.ones(2),), trace=True
        )
    assert "returns an object" in str(raised.value.hint) and "as a tuple" in str(
        raised.value.hint
    )
    notes: list[str] = []
    named = lambda x: collections.OrderedDict(y=x * 2)  # noqa: E731
    to_torchscript(torch, named, lambda: (torch.ones(2),), True, notes.append)
    assert "strict=False" in notes[0]


def test_an_attribute_with_the_id_of_a_builtin_is_no_builtin() -> None:
    """As when the function is gone: torch itself cannot script the model then."""
    import torch
    from torch.jit import _builtins

    from fusiondoc.probe.models import to_torchscript

    model = torch.nn.Conv2d(1, 1, 3)
    padding = model._reversed_padding_repeated_twice
    _builtins._register_builtin(padding, "aten::relu")
    try:
        with pytest.raises(RuntimeError, match="builtin cannot be used as a value"):
            torch.jit.script(model)
        scripted = to_torchscript(torch, model, lambda: None, trace=False)
    finally:
        del _builtins._get_builtin_table()[id(padding)]
    image = torch.ones(1, 1, 4, 4)
    assert torch.equal(scripted(image), model(image))


def test_inputs_by_name_on_the_command_line(fusiondoc: Run, program: Path) -> None:
    wrong = fusiondoc(
        "diagnose",
        "program.py:Net(8)",
        "--input",
        "float32[4,8]",
        "--input",
        "scal=float32[8]",
    )
    assert wrong.returncode == 2
    assert "Unknown keyword argument 'scal'" in wrong.stderr
    assert (
        "scal=float32[8]" in wrong.stderr
        and "Optional[Tensor] scale" in wrong.stderr
    )


def test_what_torch_compile_wraps_is_run_under_torchscript(
    fusiondoc: Run, program: Path
) -> None:
    done = fusiondoc(
        "diagnose", "program.py:compiled", "--input", "float32[8]", "--fuser", "nnc"
    )
    assert done.returncode == 0, done.stderr
    assert (
        "compiled with torch.compile" in done.stderr
        and "--fuser inductor" in done.stderr
    )
    assert "4 operators in 1 group" in done.stdout


def test_what_torch_compile_wraps_is_found() -> None:
    """In the four forms of torch 2.13; of torch.compile(torch.jit.script(f)) it
    makes a function first."""
    from fusiondoc.probe.models import not_compiled

    def inner() -> None: ...

    def compiled() -> None: ...

    scripted = object()
    inner.__code__ = inner.__code__.replace(
        co_filename="/site/torch/_dynamo/external_utils.py"
    )
    vars(inner)["__wrapped__"] = scripted
    vars(compiled)["_torchdynamo_orig_callable"] = inner
    notes: list[str] = []
    assert not_compiled(compiled, notes.append) is scripted and len(notes) == 1

    class Model:
        def forward(self) -> None: ...

    class OptimizedModule:
        """Its attributes are those of its module's forward too."""

        _orig_mod = Model()
        _torchdynamo_orig_callable = _orig_mod.forward

    model = Model()
    vars(compiled)["_torchdynamo_orig_callable"] = model.forward
    assert not_compiled(compiled, notes.append) is model
    assert (
        not_compiled(OptimizedModule(), notes.append) is OptimizedModule._orig_mod
    )
    vars(model)["_compiled_call_impl"] = compiled  # model.compile()
    assert not_compiled(model, notes.append) is model and len(notes) == 4


FROZEN = """
    import torch
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    frozen = torch.jit.freeze(torch.jit.script(net))
    inputs = (torch.randn(1, 3, 8, 8),)
"""


def test_who_froze_a_module_is_said(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "conv.py").write_text(textwrap.dedent(FROZEN))
    ours = fusiondoc("diagnose", "conv.py:net", "--fuser", "onednn")
    assert "frozen by fusiondoc" in ours.stdout
    theirs = fusiondoc("diagnose", "conv.py:frozen", "--fuser", "onednn")
    assert theirs.returncode == 0, theirs.stderr
    assert (
        "frozen by the program" in theirs.stdout and "aten::conv2d" in theirs.stdout
    )
    asked = fusiondoc("diagnose", "conv.py:net", "--fuser", "nnc", "--freeze")
    assert "frozen by fusiondoc" in asked.stdout
    left = fusiondoc("diagnose", "conv.py:net", "--fuser", "onednn", "--no-freeze")
    assert "frozen by" not in left.stdout


def test_a_file_of_a_package_is_named_as_a_module(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    for name in ("pack", "pack/inner"):
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "pack/inner/net.py").write_text(
        "from . import other\nmodel = abs\ninputs = (1,)\n"
    )
    done = fusiondoc("diagnose", "pack/inner/net.py")
    assert done.returncode == 3
    assert "pack.inner.net:model" in " ".join((done.stdout + done.stderr).split())


def test_an_archive_of_torch_export_is_refused_with_what_to_do(
    fusiondoc: Run, tmp_path: Path
) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "exported.pt", "w") as archive:
        archive.writestr("exported/archive_format", "pt2")
        archive.writestr("exported/models/model.json", "{}")
    (tmp_path / "exported.pt2").write_bytes((tmp_path / "exported.pt").read_bytes())
    for name in ("exported.pt", "exported.pt2"):
        done = fusiondoc("diagnose", name, "--input", "float32[2]")
        assert done.returncode == 2
        assert "torch.export" in done.stderr and "FILE.py:NAME" in done.stderr


@pytest.mark.parametrize(
    ("text", "name", "call"),
    [
        ("program.py:Net(8)", "Net", "(8)"),
        ("program.py:Net(8, path='a/b:c')", "Net", "(8, path='a/b:c')"),
        ("package.module:make()", "make", "()"),
        ("program.py:Net", "Net", None),
    ],
)
def test_a_name_may_be_called(
    program: Path, text: str, name: str, call: str | None
) -> None:
    target = parse_target(text, program.parent)
    assert (target.name, target.call) == (name, call)
    assert os.sep not in target.slug


@pytest.mark.parametrize(
    "call",
    ["(open('x'))", "(*[1])", "(**{})", "(1)(2)", "(__import__('os'))", "(1"],
)
def test_a_target_is_no_program(program: Path, call: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_target(f"program.py:Net{call}", program.parent)
    assert (
        "plain values" in raised.value.message
        or "is not a Python name" in raised.value.message
    )


CONTAINERS = """
    from typing import Dict, List
    import torch
    from torch import Tensor

    def model(x, y, d: Dict[str, Tensor]):
        out: List[Tensor] = []
        out += [x.relu() * 2]
        more = out + [y.tanh() * x]
        more += more[1:] * 2
        last = more.pop()
        z = d["x"] + last
        for value in d.values():
            z = z + value
        y = d.get("y")
        assert y is not None
        w = d.pop("x") * d.setdefault("w", last)
        return torch.stack(more.copy()), z * y, w, list(d.values())

    def inputs():
        d = {"x": torch.randn(4, 4), "y": torch.randn(4, 4)}
        return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4), d
"""


@pytest.mark.parametrize("backward", [False, True])
def test_what_is_done_to_lists_and_dictionaries_is_no_operator(
    fusiondoc: Run, tmp_path: Path, backward: bool
) -> None:
    """``out += [x]`` is aten::add_ of two lists: nothing is computed, and nothing
    can be won by a change."""
    source = textwrap.dedent(CONTAINERS)
    (tmp_path / "lists.py").write_text(source)
    report = _report(fusiondoc, "lists.py", *(["--backward"] if backward else []))
    of_lists = {
        at
        for at, line in enumerate(source.split("\n"), 1)
        if "out + [" in line or "+= " in line
    }
    rows = [(row["op"], *row["source"].split(":")[:2]) for row in report["unfused"]]
    mine = [(op, int(line)) for op, file, line in rows if file.endswith("lists.py")]
    assert "aten::stack" in {op for op, _ in mine}
    assert not [
        op for op, line in mine if op.startswith("aten::add") and line in of_lists
    ]
    assert {op for op, _ in mine} <= {"aten::stack", "aten::add", "aten::mul", "aten::tanh", "aten::relu",
                                      "prim::If", "prim::Loop"}  # fmt: skip
    assert not [one for one in report["plan"] if one["kind"] == "out_of_place"]


def test_a_name_that_a_module_does_not_hold_is_not_asked_for() -> None:
    """``torch.classes`` raises for any name, and ``torch`` imports some: the
    model's own attributes were looked up there."""
    from fusiondoc.probe.frontends import uses_aot

    text = """
        import torch

        def forward(self, x):
            return self.classes.decode(torch.sigmoid(x).view(-1, self.classes))
    """
    program: dict[str, Any] = {}
    exec(textwrap.dedent(text), program)
    assert uses_aot(program["torch"], program["forward"]) is None


SHAPES = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = torch.tanh(self.fc(x) * 2.0 + 1.0)
            return torch.nn.functional.normalize(y, dim=-1)

    model = Net().eval()
    inputs = [(torch.randn(n, 8),) for n in (2, 3, 4, 5)]
"""


@pytest.mark.parametrize(
    ("fuser", "strategy"), [("onednn", "STATIC:2,DYNAMIC:10"), ("nnc", "STATIC:10")]
)
def test_sizes_that_change_have_one_change_and_a_knob_only_where_it_helps(
    fusiondoc: Run, tmp_path: Path, fuser: str, strategy: str
) -> None:
    """oneDNN Graph compiles for exact sizes, whatever the strategy."""
    (tmp_path / "shapes.py").write_text(textwrap.dedent(SHAPES))
    done = fusiondoc("diagnose", "shapes.py", "--fuser", fuser, "--format", "json",
                     *("--knob", f"fusion_strategy={strategy}"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"FD305", "FD407"} <= {one["code"] for one in report["findings"]}
    (change,) = [one for one in report["plan"] if one["kind"] == "static shapes"]
    assert ("DYNAMIC:10" in change["change"]) is (fuser == "nnc")
    assert ("DYNAMIC:10" in (change["command"] or "").replace(strategy, "")) is (
        fuser == "nnc"
    )


def test_a_view_that_ends_a_differentiable_graph_hides_what_stands_behind_it(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """F.normalize in training: clamp_min and div stand on two sides of an
    expand_as, which torch keeps out of differentiable graphs. With clamp in the
    place of clamp_min both are still alone."""
    (tmp_path / "shapes.py").write_text(textwrap.dedent(SHAPES))
    report = _report(fusiondoc, "shapes.py", "--backward")
    (row,) = [one for one in report["unfused"] if one["op"] == "aten::clamp_min"]
    assert row["keeps_out"] is None
    assert not [one for one in report["plan"] if "clamp_min" in one["change"]]


MASKED = """
    import torch

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x, mask):
            s = self.fc(x) / 8.0
            s = s.masked_fill(mask == 0, float("-inf"))
            keep = (s.amax(-1, True) > 0.5).float()
            return torch.tanh(s) * keep

    model = Scores()
    inputs = (torch.randn(8, 8), torch.tril(torch.ones(8, 8)))
"""


@pytest.mark.parametrize("backward", [False, True])
def test_a_masked_fill_with_a_number_is_shown_only_where_that_fuses(
    fusiondoc: Run, tmp_path: Path, backward: bool
) -> None:
    """torch.where has no gradient formula with a number: in training value has to
    be a tensor."""
    (tmp_path / "masked.py").write_text(textwrap.dedent(MASKED))
    report = _report(fusiondoc, "masked.py", *(["--backward"] if backward else []))
    (change,) = [one for one in report["plan"] if "masked_fill" in one["change"]]
    value = (
        'torch.full([], float("-inf"), device=mask.device)'
        if backward
        else 'float("-inf")'
    )
    assert change["after"] == f"s = torch.where(mask == 0, {value}, s)"
    assert (change["note"] == "for tensors of a floating-point type") is backward
    # .float() has no gradient formula either, and no line is known that writes it
    # otherwise.
    assert not [one for one in report["plan"] if "aten::to" in one["ops"]]


NORM = """
    import torch

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(8) + 0.5)

        def forward(self, x):
            h = x.to(torch.float32)
            h = torch.tanh(h) * torch.sigmoid(h)
            return self.weight * h.to(x.dtype)

    model = Norm()
    inputs = (torch.randn(4, 8, dtype=torch.bfloat16),)
"""


@pytest.mark.parametrize("weight", ["float32", "bfloat16"])
def test_type_as_is_offered_only_where_a_tensor_has_that_type(
    fusiondoc: Run, tmp_path: Path, weight: str
) -> None:
    """An RMS norm of a T5 or Llama: x in bfloat16. ``h.type_as(weight)`` is a cast
    to float32 where the weight is float32, and leaves the rounding to bfloat16
    out."""
    text = textwrap.dedent(NORM).replace(
        "model = Norm()", f"model = Norm().to(torch.{weight})"
    )
    (tmp_path / "norm.py").write_text(text)
    report = _report(fusiondoc, "norm.py")
    (row,) = [
        one
        for one in report["unfused"]
        if one["op"] == "aten::to" and "dtype" in one["reason"]["text"]
    ]
    offered = [
        one["after"]
        for one in report["plan"]
        if "aten::to" in one["ops"] and one["kind"] == "recipe"
    ]
    line = "return self.weight * h.type_as(x)"
    assert offered == ([line] if weight == "bfloat16" else [])
    assert row["user_source"].endswith("norm.py:12")


CHANNELS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(2, 2, 1, bias=False) for _ in range(3)])
            self.norms = nn.ModuleList([nn.BatchNorm2d(2) for _ in range(3)])

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms):
                x = norm(conv(x))
            return x

    model = Net().eval()
    inputs = (torch.randn(1, 2, 4, 4),)
"""


@pytest.mark.parametrize(
    "case", ["eval", "scripted", "training", "backward", "twice"]
)
def test_freezing_is_offered_where_batch_norms_go_into_convolutions(
    fusiondoc: Run, tmp_path: Path, case: str
) -> None:
    """As in shufflenet, whose 56 batch norms stand between convolutions: no group
    is gained by it, and 56 operators go. Where the result of the convolution is
    read elsewhere too, the batch norm stays."""
    text = textwrap.dedent(CHANNELS)
    if case == "scripted":
        text = text.replace(
            "model = Net().eval()", "model = torch.jit.script(Net().eval())"
        )
    if case == "training":
        text = text.replace("Net().eval()", "Net()")
    if case == "twice":
        text = text.replace(
            "x = norm(conv(x))",
            "y = conv(x)\n            x = torch.matmul(norm(y), y)",
        )
    (tmp_path / "channels.py").write_text(text)
    report = _report(
        fusiondoc, "channels.py", *(["--backward"] if case == "backward" else [])
    )
    frozen = [one for one in report["plan"] if one["kind"] == "freeze"]
    assert len(frozen) == (case in ("eval", "scripted", "training"))
    if frozen:
        assert (
            frozen[0]["operators"] == 3
            and "goes into the convolutions" in frozen[0]["unlocks"]
        )


def test_a_device_that_is_switched_off_is_what_to_change_and_the_groups_are_those_that_come(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """The log of a program of its own with a torch without LLVM, where NNC is off
    on the CPU by default."""
    (tmp_path / "gates.py").write_text(
        textwrap.dedent("""
            import torch

            def model(x, w):
                i, f = torch.mm(x, w).chunk(2, 1)
                return torch.sigmoid(i) * torch.tanh(f) + 1.0

            inputs = (torch.randn(4, 8), torch.randn(8, 16))
        """)
    )
    report = _report(fusiondoc, "gates.py", "--knob", "fuse_on_cpu=off")
    (change,) = report["plan"]
    assert change["unlocks"].startswith(
        "1 group of ConstantChunk+sigmoid+tanh+mul+"
    )
    assert change["command"] == (
        "fusiondoc diagnose gates.py --fuser nnc --knob fuse_on_cpu=on --knob nnc_must_use_llvm=off"
    )
    assert "torch._C._jit_override_can_fuse_on_cpu(True)" in change["python"]
    report = _report(
        fusiondoc,
        "gates.py",
        *("--knob", "fuse_on_cpu=on", "--knob", "nnc_must_use_llvm=off"),
    )
    assert [len(group["ops"]) for group in report["groups"]] == [5]


def test_the_block_between_two_operators_is_not_the_one_that_both_stand_in(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """A step of a decoder: ``sub`` in the loop, ``div`` in a branch of the loop."""
    text = """
        from typing import Optional
        import torch

        def model(x, n: int, temperature: Optional[float] = None):
            for _ in range(n):
                x = torch.cumsum(x, 0) - x.logsumexp(-1, keepdim=True)
                if temperature is not None:
                    x = x / temperature
                if bool((x > 100).all()):
                    break
            return x

        inputs = (torch.randn(4, 8), 3, 0.7)
    """
    (tmp_path / "steps.py").write_text(textwrap.dedent(text))
    report = _report(fusiondoc, "steps.py")
    said = {
        row["op"]: row["reason"]["text"]
        for row in report["unfused"]
        if row["reason"]["code"] == "FD228"
    }
    for op, other in (("aten::sub", "aten::div"), ("aten::div", "aten::sub")):
        assert said[op].startswith(
            f"{other} is on the other side of the block of prim::If ("
        )
