"""``fusiondoc bench --suite``: its cases and programs, its documents, and a small
run of real children."""

from __future__ import annotations

import ast
import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ROOT, Run
from valid_json import validate

from fusiondoc.model.bench import (
    EAGER,
    FORWARD,
    TRAINING,
    Bench,
    BenchPhase,
    BenchVariant,
    ByPhase,
    Measured,
    Ratio,
    Suite,
    SuiteCase,
)
from fusiondoc.probe.pass_inputs import TensorText, parse_input
from fusiondoc.reports import bench_documents
from fusiondoc.reports.json_format import as_json
from fusiondoc.suites import SUITES, TUTORIAL, XFORMERS, Case

SCHEMA = json.loads((ROOT / "docs" / "suite.schema.json").read_text("utf-8"))
OLD, NEW = "Python 3.10, torch 2.1.2", "Python 3.12, torch 2.11.0"
EVERY = [case for plan in SUITES.values() for case in (*plan.cases, *plan.small)]


def variant(
    name: str, python: str, times: float, busy: float = 0.9, **facts: object
) -> BenchVariant:
    phases = []
    for phase, eager in ((FORWARD, 0.1), (TRAINING, 0.3)):
        ratio = Ratio(times, times * 0.99, times * 1.01)
        ms = Measured(eager / times, eager / times, eager / times)
        phases.append(
            BenchPhase(
                phase,
                ms,
                1e3 * times / eager,
                ratio,
                ms.median * busy,
                busy,
                6,
                300,
            )
        )
    return BenchVariant(name, python, True, None, tuple(phases), **facts)  # type: ignore[arg-type]


def made(small: bool = False) -> Suite:
    """Two cases in two interpreters: one of the variants cannot run in the
    newer."""
    cases = []
    for block, times in (("composite", 1.3), ("rms_norm", 2.0)):
        rows = [
            variant(EAGER, OLD, 1.0, peak_bytes=200_000_000),
            variant(
                "nvfuser",
                OLD,
                times,
                0.4,
                peak_bytes=100_000_000,
                groups=ByPhase(1, 2),
            ),
            variant(
                "aot-each-call", OLD, 0.01, recompiles=36, groups=ByPhase(0, 0)
            ),
            variant(EAGER, NEW, 1.0),
            BenchVariant(
                "nvfuser",
                NEW,
                False,
                "nvFuser is in TorchScript of torch 1.12 to 2.1 only",
            ),
            variant("aot-each-call", NEW, 1.001, groups=ByPhase(0, 0)),
        ]
        bench = Bench({"gpu": "NVIDIA H200"}, "f.py", ("float32[2]",), tuple(rows))
        cases.append(SuiteCase(block, "static", bench))
    broken = SuiteCase("primitive", "static", None, "it has no | inputs")
    return Suite(
        "tutorial",
        small,
        (*cases, broken),
        TUTORIAL.published,
        TUTORIAL.why_different,
    )


# -- cases and programs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", sorted((ROOT / "fusiondoc" / "suites").glob("*_*.py")), ids=str
)
def test_programs_run_beside_any_torch(program) -> None:
    """Python 3.7, the standard library and torch, nothing of the package."""
    if program.name.startswith("__"):
        return
    tree = ast.parse(program.read_text("utf-8"), feature_version=(3, 7))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {
        str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert names <= {"torch", "torch.nn.functional", "math", "typing"}


def test_every_case_names_a_program_and_inputs_that_can_be_read() -> None:
    functions = {}
    for file in ("timed_programs.py",):
        tree = ast.parse((ROOT / "fusiondoc" / "suites" / file).read_text("utf-8"))
        functions[file] = {
            node.name: len(node.args.args) - len(node.args.defaults)
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
        }
    for case in EVERY:
        file, _, name = case.program.partition(":")
        tensors = [parse_input(text) for text in case.inputs]
        assert all(isinstance(one, TensorText) and one.grad for one in tensors)
        if name in functions[file]:
            assert functions[file][name] == len(tensors), case
        else:
            assert (
                name.startswith(("feed_forward_", "attention_", "block_"))
                and len(tensors) == 1
            ), case


def test_the_cases_are_those_of_the_authors() -> None:
    static = next(one for one in TUTORIAL.cases if one.name == "composite static")
    assert static.inputs[0] == "float32[64,128,1024]:grad"
    blocks = {one.block for one in XFORMERS.cases}
    assert len(
        [
            one
            for one in XFORMERS.cases
            if one.block not in ("feed_forward", "attention", "block")
        ]
    ) == (12 * 6 * 2), (
        "3 activations, residual, 2 norms; with and without bias; 6 shapes; 2 dtypes"
    )
    assert {
        "bias_squared_relu_dropout",
        "dropout_residual_norm_post",
        "block",
    } <= blocks
    assert len({one.name for one in EVERY}) == len(
        {(one.block, one.sizes) for one in EVERY}
    )


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ((), 156),
        (("bias_gelu_dropout 8x256x512 float16",), 1),
        (("2x4096x4096",), 24),
        (("bias_gelu*float16",), 6),
        (("block", "attention"), 8),
    ],
)
def test_a_case_is_chosen_by_a_part_of_its_name(
    patterns: tuple[str, ...], found: int
) -> None:
    assert len(XFORMERS.chosen(patterns, small=False)) == found


# -- documents --------------------------------------------------------------------------------------------


def test_text_has_every_case_and_interpreter_and_what_was_published() -> None:
    text = bench_documents.as_text(made(), width=80)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    assert "2.1.2 0.3 1.30×" in flat and "2.00×" in flat and "≈1" in flat
    assert "1.64×" in flat and "geometric mean of five GPUs" in flat
    assert (
        "nvfuser, torch 2.11.0 nvFuser is in TorchScript" in flat
        and "it has no | inputs" in flat
    )
    assert "0.50×" in flat, "memory of nvFuser against eager"
    assert (
        "compiles in every call (up to 36 times" in flat
        and "bound by the host: in 2 of 10" in flat
    )


def test_small_sizes_have_no_published_figure_beside_them() -> None:
    assert [
        one.value for one in made().beside() if one.published.value == 1.64
    ] == [1.3]
    assert made(small=True).beside() == []
    text = bench_documents.as_text(made(small=True))
    assert "1.64" not in text and "sizes are small" in text


def test_the_most_of_a_suite_names_its_case() -> None:
    most = replace(made(), published=XFORMERS.published[:1])
    assert most.beside() == [], (
        "no case ran its variant, and none of these is a pattern"
    )
    of = replace(XFORMERS.published[0], variant="nvfuser", case="*static")
    (found,) = replace(most, published=(of,)).beside()
    assert (found.case, found.value, found.interpreter) == (
        "rms_norm static",
        2.0,
        OLD,
    )


def test_json_markdown_and_csv_have_all_of_it() -> None:
    suite = made()
    data = json.loads(as_json(suite))
    validate(data, SCHEMA)
    assert data["schema"] == "fusiondoc.suite/1" and len(data["cases"]) == 3
    page = bench_documents.as_markdown(suite)
    assert "it has no \\| inputs" in page and "| composite | static | 2" in page
    rows = list(csv.DictReader(io.StringIO(bench_documents.as_csv(suite))))
    assert len(rows) == 2 * (5 * 2 + 1) + 1
    assert rows[2]["variant"] == "nvfuser" and rows[2]["block"] == "composite"
    assert rows[-1]["reason"] == "it has no | inputs" and rows[-1]["ratio"] == ""


def test_two_suites_are_compared_case_by_case(
    fusiondoc: Run, tmp_path: Path
) -> None:
    a, b, bench = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "bench.json"
    old, new = made(), made()
    changed = new.cases[1].bench
    assert changed is not None
    rows = [
        variant("nvfuser", OLD, 1.0) if one.name == "nvfuser" else one
        for one in changed.variants
    ]
    cases = (
        new.cases[0],
        replace(new.cases[1], bench=replace(changed, variants=tuple(rows))),
    )
    a.write_text(
        as_json(replace(old, cases=(*old.cases[:2], replace(cases[0], sizes="x"))))
    )
    b.write_text(as_json(replace(new, cases=cases)))
    done = fusiondoc("compare", a, b, "--fail-on", "slower")
    text = " ".join(done.stdout.split())
    assert (
        done.returncode == 1
        and "2 slower" in text
        and "only in A: composite x" in text
    )
    assert (
        f"rms_norm static, forward, float32[2], {OLD}" in text
        and "slower: 0.50×" in text
    )
    data = json.loads(fusiondoc("compare", a, b, "-f", "json").stdout)
    validate(
        data,
        json.loads(
            (ROOT / "docs" / "bench-comparison.schema.json").read_text("utf-8")
        ),
    )
    slower = [one for one in data["changes"] if one["change"] == "slower"]
    assert {(one["case"], one["variant"]) for one in slower} == {
        ("rms_norm static", "nvfuser")
    }
    markdown = fusiondoc("compare", a, b, "-f", "markdown").stdout
    assert "|  | variant | A ms | B ms | B is |" in markdown
    assert "| rms\\_norm static, forward, float32\\[2\\], " in markdown
    bench.write_text(as_json(changed))
    mixed = fusiondoc("compare", a, bench)
    assert (
        mixed.returncode == 2
        and "a.json is the result of a suite, and" in " ".join(mixed.stderr.split())
    )
    b.write_text(b.read_text().replace('"median": 0.1', '"median": 0'))
    assert "b.json is damaged: eager, forward" in fusiondoc("compare", a, b).stderr


# -- the command ------------------------------------------------------------------------------------------


def test_wrong_usage(fusiondoc: Run) -> None:
    for arguments, said in (
        ((), "a target or a suite"),
        (("model.py", "--suite", "tutorial"), "a target or a suite"),
        (("--suite", "tutorail"), "'tutorial'"),
        (
            ("--suite", "tutorial", "--case", "layer_norm"),
            "no case of the suite tutorial",
        ),
    ):
        done = fusiondoc("bench", *arguments)
        assert (
            done.returncode == 2
            and said in done.stderr
            and "Traceback" not in done.stderr
        )


def test_suites_are_listed(fusiondoc: Run) -> None:
    listed = fusiondoc("bench", "--list-suites").stdout
    assert (
        "tutorial: " in listed
        and "bias_dropout_residual_norm_pre: 8x256x512 float16" in listed
    )


@pytest.mark.torch
def test_a_case_runs_and_wrapping_in_every_call_compiles_in_every_call(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """One run, written in several formats."""
    out = tmp_path / "suite.json"
    done = fusiondoc(
        *(
            "bench",
            "--suite",
            "xformers",
            "--case",
            "bias_relu_dropout 2x8x32",
            "--rounds",
            6,
        ),
        *(
            "--variant",
            "aot-each-call",
            "--device",
            "cpu",
            "-o",
            out,
            "-o",
            tmp_path / "suite.html",
        ),
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(out.read_text("utf-8"))
    validate(data, SCHEMA)
    assert data["small"] and [one["block"] for one in data["cases"]] == [
        "bias_relu_dropout"
    ]
    eager, each = data["cases"][0]["bench"]["variants"]
    rounds = each["phases"][0]
    assert (
        eager["available"]
        and each["recompiles"] >= rounds["rounds"] * rounds["steps"]
    ), each
    assert each["groups"] == {"forward": 0, "backward": 0}
    assert "suite xformers" in (tmp_path / "suite.html").read_text("utf-8")


@pytest.mark.torch
def test_programs_compute_what_their_names_say() -> None:
    """Against other ways to write the same, with nothing dropped; modules are
    scripted too."""
    torch = pytest.importorskip("torch")
    from fusiondoc.suites import timed_programs

    functional = torch.nn.functional
    torch.manual_seed(3)
    x, residual = torch.randn(2, 4, 16), torch.randn(2, 4, 16)
    weight, bias, shift = torch.randn(3, 16)
    before = functional.dropout
    functional.dropout = lambda value, *_: value
    try:
        summed = x + bias + residual
        expected = functional.layer_norm(summed, (16,), weight, shift, 1e-12)
        apart = (
            timed_programs.primitive(x, residual, weight, bias, shift) - expected
        )
        assert apart.abs().max() < 1e-5
        normed = timed_programs.rms_norm(x, residual, weight, bias) / weight
        assert torch.allclose(normed.square().mean(2), torch.ones(2, 4))
        pre = timed_programs.bias_dropout_residual_norm_pre(
            x, residual, weight, shift, bias
        )
        assert torch.allclose(
            pre, functional.layer_norm(x + bias, (16,), weight, shift) + residual
        )
    finally:
        functional.dropout = before
    module = timed_programs.block_16
    assert torch.jit.script(module)(x).shape == x.shape
    assert timed_programs.attention_16_float16.outer.weight.dtype == torch.float16
    with pytest.raises(AttributeError):
        timed_programs.__getattr__("blok_16")


@pytest.mark.torch
def test_the_axis_of_the_block_from_primitives_is_no_constant() -> None:
    """nvFuser fails in training where the dimension of a mean is a constant of the
    graph (FD307)."""
    torch = pytest.importorskip("torch")
    from fusiondoc.suites import timed_programs

    graph = torch.jit.script(timed_programs.primitive).graph
    torch._C._jit_pass_inline(graph)
    torch._C._jit_pass_constant_propagation(graph)
    means = graph.findAllNodes("aten::mean")
    given = {one.debugName() for one in graph.inputs()}
    assert len(means) == 2
    for mean in means:
        (axis,) = list(mean.inputsAt(1).node().inputs())
        assert axis.debugName() in given and mean.inputsAt(2).debugName() in given


@pytest.mark.torch
def test_the_block_from_primitives_is_right_under_a_fuser(fusiondoc: Run) -> None:
    (case,) = (one for one in TUTORIAL.small if one.name == "primitive static")
    inputs = [part for text in case.inputs for part in ("--input", text)]
    asked = (
        "--fuser",
        "nnc",
        "--backward",
        "--verify",
        "--runs",
        4,
        "--format",
        "json",
    )
    done = fusiondoc("diagnose", case.target, *inputs, *asked)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verification"] and all(
        one["same"] for one in report["verification"]
    )
    assert {one["phase"] for one in report["groups"]} == {"forward", "backward"}


@pytest.mark.torch
@pytest.mark.nightly
def test_every_variant_that_is_here_runs_the_block_from_primitives(
    fusiondoc: Run,
) -> None:
    asked = (
        "--suite",
        "tutorial",
        "--case",
        "primitive static",
        "--small",
        "--backward",
        "--rounds",
        6,
    )
    variants = [
        part
        for name in ("eager", "none", "aot", "aot-default")
        for part in ("--variant", name)
    ]
    done = fusiondoc(
        "bench", *asked, *variants, "--device", "cpu", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    for one in case["bench"]["variants"]:
        assert one["available"] and len(one["phases"]) == 2 and not one["reason"], (
            one
        )


def test_cases_name_their_program_by_its_file() -> None:
    case = Case("a", "b", "timed_programs.py:composite", ("float32[2]",))
    assert (
        case.target.endswith("timed_programs.py:composite") and case.name == "a b"
    )
