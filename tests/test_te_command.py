"""`diagnose --frontend te` without Transformer Engine, and reports of captures that
were made with it."""

from __future__ import annotations

import importlib
import json
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run
from running import write

from fusiondoc.captures.capture import RECORDS, REQUEST, SCHEMA

PROGRAM = (
    "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
)


def test_without_transformer_engine_the_status_is_4_and_says_what_to_install(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(PROGRAM, encoding="utf-8")
    done = fusiondoc("diagnose", "model.py", "--frontend", "te", cwd=tmp_path)
    assert done.returncode == 4 and done.stdout == ""
    assert "cannot import transformer_engine.pytorch.ops" in done.stderr
    assert "pip install" in done.stderr and "Traceback" not in done.stderr


def capture(
    folder: Path, program: str, *more: dict[str, Any], version: str = "2.20.2"
) -> Path:
    """A capture with what a version of Transformer Engine planned for a program of
    fixtures/te."""
    text = lzma.decompress(
        (ROOT / "fixtures" / "te" / f"plans-{version}.jsonl.xz").read_bytes()
    ).decode()
    lines, inside = [], False
    for record in map(json.loads, text.splitlines()):
        if record["record"] == "program":
            inside = record["name"] == program
        elif inside or record["record"] == "te_package":
            lines.append(record)
    lines.append(
        {"record": "frontend", "requested": "te", "effective": "te", "why": None}
    )
    lines.append({"record": "done", "seconds": 1.0, "own_seconds": 0.1})
    folder.mkdir()
    target = {
        "text": "te.py",
        "kind": "file",
        "path": None,
        "module": None,
        "name": None,
    }
    request = {"schema": SCHEMA, "target": target, "options": {"frontend": "te"}}
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    (folder / "result.json").write_text(
        json.dumps({"exit_status": 0}), encoding="utf-8"
    )
    (folder / "log").write_text("", encoding="utf-8")
    text = "".join(json.dumps(one) + "\n" for one in (*lines, *more))
    (folder / RECORDS).write_text(text, encoding="utf-8")
    return folder


def test_every_format_shows_the_plan(fusiondoc: Run, tmp_path: Path) -> None:
    folder = capture(tmp_path / "one", "bias in float32")
    said = fusiondoc("parse", folder).stdout
    assert (
        "Transformer Engine 2.20.2, planned on the CPU: a plan, not a run"
        in " ".join(said.split())
    )
    assert "FD241" in said and "FD112" in said and "FD901" not in said
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    assert (report["frontend"], report["fuser"]["effective"], report["groups"]) == (
        "te",
        "te",
        [],
    )
    assert [one["op"] for one in report["te"]["fusers"][0]["operators"]] == [
        "BasicLinear",
        "Bias",
    ]
    results = json.loads(fusiondoc("parse", folder, "--format", "sarif").stdout)[
        "runs"
    ][0]["results"]
    assert "FD241" in {one["ruleId"] for one in results}
    for form in ("html", "markdown", "junit"):
        done = fusiondoc("parse", folder, "--format", form)
        assert done.returncode == 0 and "te.ops.BasicLinear" in done.stdout, (
            form,
            done.stderr,
        )
        if form == "html":
            section = done.stdout.split('<section id="te"')[1].split("</section>")[
                0
            ]
            assert (
                "Fuser 1" in section
                and "BasicLinear, Bias" in section
                and "training" in section
            )
    assert fusiondoc("parse", folder, "--fail-on", "FD241").returncode == 1


def test_groups_are_expected_and_compared(fusiondoc: Run, tmp_path: Path) -> None:
    half, full = (
        capture(tmp_path / "half", "bias in float16"),
        capture(tmp_path / "full", "bias in float32"),
    )
    expected = tmp_path / "expect.yaml"
    assert (
        fusiondoc("check", half, "--expect", expected, "--update").returncode == 0
    )
    assert "te.ops.BasicLinear" in expected.read_text("utf-8")
    assert fusiondoc("check", half, "--expect", expected).returncode == 0
    assert fusiondoc("check", full, "--expect", expected).returncode == 1
    said = fusiondoc("compare", half, full).stdout
    assert "ForwardLinearBiasActivation" in said or "te.ops.Bias" in said


def test_kernels_as_planned_and_without_fusion(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Hand-made numbers: the arithmetic alone."""
    kernel = {
        "name": "gemm",
        "kind": "kernel",
        "us": 10.0,
        "grid": [1, 2, 3],
        "block": [128, 1, 1],
    }
    fill = {"name": "Memset (Device)", "kind": "gpu_memset", "us": 1.0}

    def entry(
        index: int, us: float, *launched: dict[str, Any], plan: int = 0
    ) -> dict[str, Any]:
        return {
            "fuser": fuser,
            "plan": plan,
            "phase": "forward",
            "entry": index,
            "calls": 5,
            "us": [us, us, us],
            "kernels": list(launched),
        }

    folder = capture(tmp_path / "plain", "bias in float16")
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    told = [
        json.loads(line)
        for line in (folder / RECORDS).read_text("utf-8").splitlines()
    ]
    plan = next(one for one in told if one["record"] == "te_plan")
    fuser = plan["fuser"]
    both = {"record": "te_profile", "training": True, "recipe": "none", "passes": 5}
    planned = {
        **both,
        "fused": True,
        "kernels": 1,
        "us": 11.0,
        "entries": [entry(0, 11.0, kernel, fill, plan=plan["plan"])],
    }
    apart = {
        **both,
        "fused": False,
        "kernels": 2,
        "us": 14.0,
        "entries": [entry(0, 10.0, kernel), entry(1, 4.0, kernel)],
    }
    timed = capture(tmp_path / "timed", "bias in float16", planned, apart)
    report = json.loads(fusiondoc("parse", timed, "--format", "json").stdout)
    (step,) = report["te"]["fusers"][0]["plans"][0]["forward"]
    assert step["time"] == {
        "kernels": 1,
        "copies": 1,
        "us": 11.0,
        "alone_kernels": 2,
        "alone_us": 14.0,
    }
    (made,) = report["kernels"]
    assert (made["groups"], made["grid"], made["ms"]["median"]) == (
        ["G1"],
        [1, 2, 3],
        pytest.approx(0.01),
    )
    said = " ".join(fusiondoc("parse", timed).stdout.split())
    assert (
        "1 kernel and 11.0 us on the GPU as planned; 2 and 14.0 us without any fusion"
        in said
    )


def test_plans_are_watched_from_the_import_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever imports it: the file of a script need not name it."""
    from fusiondoc.probe.log_and_records import Records
    from fusiondoc.probe.replaced import AfterImport
    from fusiondoc.probe.te_plans import OPS, Waiting
    from fusiondoc.probe.te_run import TeRun

    folder = tmp_path.joinpath(*OPS.split("."))
    write(tmp_path, "transformer_engine/__init__.py", "__version__ = '2.20.2'")
    write(tmp_path, "transformer_engine/pytorch/__init__.py", "")
    sequence = "class Sequential:\n    def __init__(self): pass\n    def forward(self, x): return x"
    write(folder, "__init__.py", f"from . import fuser, op\n{sequence}")
    write(
        folder,
        "fuser.py",
        "class OperationFuser:\n    def __call__(self, x): return x",
    )
    write(folder, "op.py", "class BasicOperation:\n    def __init__(self): pass")
    monkeypatch.syspath_prepend(tmp_path)
    waiting = Waiting(Records(str(tmp_path / "records")))
    monkeypatch.setattr(
        sys, "meta_path", [AfterImport({OPS: waiting.imported}), *sys.meta_path]
    )
    modules = [
        "transformer_engine",
        "transformer_engine.pytorch",
        OPS,
        OPS + ".fuser",
        OPS + ".op",
    ]
    try:
        ops = importlib.import_module(OPS)
        assert waiting.watch is not None
        sequence = ops.Sequential()  # one that no module holds
        sequence._module_groups = []
        assert sequence.forward(3) == 3 and list(
            waiting.watch.sequences.values()
        ) == [sequence]
        run: Any = TeRun.__new__(TeRun)
        run._watch = waiting.watch
        run._forget_plans()
        assert sequence._module_groups is None
        before = vars(ops.fuser.OperationFuser)["__call__"].__wrapped__
        waiting.stop()
        assert vars(ops.fuser.OperationFuser)["__call__"] is before
    finally:
        for name in modules:
            sys.modules.pop(name, None)
    assert (
        json.loads((tmp_path / "records").read_text().splitlines()[0])["version"]
        == "2.20.2"
    )


def test_a_recipe_is_advised_where_none_was_tried(
    fusiondoc: Run, tmp_path: Path
) -> None:
    def plan(program: str, version: str) -> list[dict[str, Any]]:
        folder = capture(tmp_path / f"{program}{version}", program, version=version)
        return [
            one
            for one in json.loads(
                fusiondoc("parse", folder, "--format", "json").stdout
            )["plan"]
            if "FD244" in one["codes"]
        ]

    (new,), (old,) = plan("no recipe", "2.20.2"), plan("no recipe", "2.7.0")
    assert new["after"] == "with te.autocast(enabled=True, recipe=recipe): model(x)"
    assert (
        old["after"]
        == "with te.fp8_autocast(enabled=True, fp8_recipe=recipe): model(x)"
    )
    # Under one, what is in the way is another thing.
    assert (
        plan("no quantizer before the bias", "2.20.2")
        == plan("backward override", "2.20.2")
        == []
    )


REAL = sorted(
    path.name[len("h100-") : -len(".jsonl.xz")]
    for path in (ROOT / "fixtures/te").glob("h100-*.xz")
)


def real_capture(folder: Path, program: str) -> Path:
    """What the probe recorded on an H100 with Transformer Engine 2.20.2:
    ``fusiondoc diagnose examples/te_programs.py:PROGRAM --backward --runs 3``,
    recipes none, delayed, current and block."""
    made = capture(folder, "")
    data = lzma.decompress(
        (ROOT / "fixtures" / "te" / f"h100-{program}.jsonl.xz").read_bytes()
    )
    (made / RECORDS).write_bytes(data)
    return made


@pytest.mark.parametrize("program", REAL)
def test_real_plans_are_those_of_the_rules_and_fusion_takes_fewer_kernels(
    program: str, fusiondoc: Run, tmp_path: Path
) -> None:
    folder = real_capture(tmp_path / program, program)
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    assert report["te"]["ran"] and report["te"]["version"] == "2.20.2"
    assert not {"FD112", "FD116", "FD249"} & {
        one["code"] for one in report["findings"]
    }
    steps = [
        one
        for fuser in report["te"]["fusers"]
        for plan in fuser["plans"]
        for one in (*plan["forward"], *plan["backward"])
    ]
    assert steps and all(one["time"]["kernels"] for one in steps if one["fused"])
    fused = [one["time"] for one in steps if one["fused"]]
    assert all(one["kernels"] <= one["alone_kernels"] for one in fused)
    assert (
        len(report["te"]["passes"]) == 16
        and len(report["te"]["fusers"][0]["plans"]) == 8
    )


@pytest.mark.parametrize("program", ["mlp", "branch"])
def test_rows_have_their_time_of_a_pass(
    program: str, fusiondoc: Run, tmp_path: Path
) -> None:
    folder = real_capture(tmp_path / program, program)
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    first = next(
        one for one in report["te"]["passes"] if one["fused"] and one["training"]
    )
    plan = report["te"]["fusers"][0]["plans"][0]
    (row,) = [one for one in report["groups"] if one["specialisation"] == 1]
    mine = [
        one
        for one in (*plan["forward"], *plan["backward"])
        if one["group"] == row["id"]
    ]
    assert row["time"]["ms"] == pytest.approx(
        sum(one["time"]["us"] for one in mine) / 1000
    )
    rows = [row, *report["unfused"]]
    shares = [one["time"]["share"] for one in rows]
    assert 0.7 < sum(shares) < 1  # what is left is gradients that are added up
    assert sum(one["time"]["ms"] for one in rows) == pytest.approx(
        sum(shares) * first["us"] / 1000, rel=1e-4
    )
    said = " ".join(fusiondoc("parse", folder).stdout.split())
    assert f"{row['time']['ms']:.3g} ms" in said
    timed = [one for one in report["findings"] if one["code"].startswith("FD24")]
    assert timed and all(one["time"] for one in timed)


def test_a_module_between_operators_splits_the_sequence(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """FD113, of a real run: torch.nn.Dropout between two te.ops.Linear."""
    report = json.loads(
        fusiondoc(
            "parse", real_capture(tmp_path / "one", "split"), "--format", "json"
        ).stdout
    )
    (told,) = [one for one in report["findings"] if one["code"] == "FD113"]
    assert told["message"].startswith("torch.nn.Dropout (")
    assert "nothing is fused across it" in told["message"]
    assert "te.ops.Dropout" in told["advice"]
    assert [one["module"] for one in report["te"]["splits"]] == ["Dropout"]
    whole = json.loads(
        fusiondoc(
            "parse", real_capture(tmp_path / "two", "mlp"), "--format", "json"
        ).stdout
    )
    assert not [one for one in whole["findings"] if one["code"] == "FD113"]


def test_fusions_of_the_program_are_named_with_what_they_made(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """FD117, planned by Transformer Engine itself."""
    folder = capture(tmp_path / "one", "a fusion of its own")
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    (told,) = [one for one in report["findings"] if one["code"] == "FD117"]
    assert (
        "registered.<locals>.fuse_scale_and_bias; they made ScaledBias"
        in told["message"]
    )
    assert report["te"]["own_fusions"] == [
        "registered.<locals>.fuse_scale_and_bias"
    ]


def test_nine_programs_ran_and_what_they_fused(
    fusiondoc: Run, tmp_path: Path
) -> None:
    assert len(REAL) == 9
    made = {}
    for program in (
        "mlp",
        "float32_mlp",
        "residual",
        "scaled_residual",
        "branch",
        "norm_branch",
    ):
        folder = real_capture(tmp_path / program, program)
        report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
        made[program] = {one["name"] for one in report["groups"]}
    bias, back = "ForwardLinearBiasActivation", "BackwardActivationBias"
    assert made["mlp"] == {bias, back} and made["float32_mlp"] == {back}
    assert made["residual"] == {"ForwardLinearBiasAdd"}
    assert made["scaled_residual"] == {
        "ForwardLinearScaleAdd",
        "BackwardLinearScale",
    }
    assert made["branch"] == {"BackwardLinearAdd"}
    assert made["norm_branch"] == {bias, back, "BackwardAddRMSNorm"}


def test_repro_says_what_to_do_instead(fusiondoc: Run, tmp_path: Path) -> None:
    folder = capture(tmp_path / "one", "bias in float32")
    for options in ((), ("--group", "G1")):
        done = fusiondoc("repro", folder, *options)
        assert (
            done.returncode == 2
            and "Transformer Engine's operation fuser" in done.stderr
        )
        assert (
            "--frontend te" in done.stderr
            and "PYTORCH_JIT_LOG_LEVEL" not in done.stderr
        )


def both(folder: Path) -> Path:
    """A program with a group of NNC and a pipeline of Transformer Engine: the log
    of the one, the records of the other."""
    made = capture(folder, "bias in float16")
    data = lzma.decompress(
        (ROOT / "fixtures" / "logs" / "nnc-2.13-split-blocks.log.xz").read_bytes()
    )
    (made / "log").write_bytes(data)
    records = (
        (made / RECORDS)
        .read_text("utf-8")
        .replace('"effective": "te"', '"effective": "torchscript"')
    )
    (made / RECORDS).write_text(records, encoding="utf-8")
    return made


def test_one_report_holds_torchscript_and_transformer_engine(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Rows of both, counted together; before, the groups of the log hid Transformer
    Engine."""
    folder = both(tmp_path / "one")
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    alone = json.loads(
        fusiondoc("parse", folder / "log", "--format", "json").stdout
    )
    kinds = [one["kind"] for one in report["groups"]]
    assert alone["groups"] and kinds == ["TensorExprGroup"] * len(
        alone["groups"]
    ) + ["te.ops.ForwardLinearBiasActivation"]
    assert [one["id"] for one in report["groups"]] == [
        f"G{n}" for n in range(1, len(kinds) + 1)
    ]
    (step,) = report["te"]["fusers"][0]["plans"][0]["forward"]
    assert step["group"] == report["groups"][-1]["id"]
    rows = {one["op"] for one in report["unfused"]} - {
        one["op"] for one in alone["unfused"]
    }
    assert rows == {"te.ops.BasicLinear", "te.ops.Bias"}  # its backward pass
    assert report["coverage"]["ops_fused"] == alone["coverage"]["ops_fused"] + 2
    assert report["coverage"]["ops_total"] == alone["coverage"]["ops_total"] + 4
    assert (report["frontend"], report["fuser"]["effective"]) == (
        "torchscript",
        "nnc",
    )
    codes = {one["code"] for one in report["findings"]}
    assert {"FD112", "FD245"} <= codes and {
        one["code"] for one in alone["findings"]
    } <= codes
    said = " ".join(fusiondoc("parse", folder).stdout.split())
    assert (
        "NNC" in said
        and "Transformer Engine 2.20.2, planned on the CPU: a plan, not a run"
        in said
    )
    number = sum(len(one["instances"]) for one in alone["groups"])
    assert (
        f"{number + 1} groups ({number} of TorchScript, 1 of Transformer Engine)"
        in said
    )
    assert "of what NNC and Transformer Engine can fuse" in said


def test_both_are_expected_compared_and_printed(
    fusiondoc: Run, tmp_path: Path
) -> None:
    folder, expected = both(tmp_path / "one"), tmp_path / "expect.yaml"
    assert (
        fusiondoc("check", folder, "--expect", expected, "--update").returncode == 0
    )
    written = expected.read_text("utf-8")
    assert "te.ops.Bias" in written and "aten::" in written
    assert fusiondoc("check", folder, "--expect", expected).returncode == 0
    without = tmp_path / "without"
    without.mkdir()
    for one in folder.iterdir():
        text = one.read_bytes()
        if one.name == RECORDS:
            text = b"".join(
                line for line in text.splitlines(True) if b'"te_plan"' not in line
            )
        (without / one.name).write_bytes(text)
    assert fusiondoc("check", without, "--expect", expected).returncode == 1
    said = fusiondoc("compare", folder, without).stdout
    assert "te.ops.Bias" in said or "ForwardLinearBiasActivation" in said
    for form in ("html", "markdown", "sarif"):
        done = fusiondoc("parse", folder, "--format", form)
        assert "te.ops.B" in done.stdout and "aten::" in done.stdout, form
    listed = fusiondoc("repro", folder)
    assert (
        listed.returncode == 0
        and "TensorExprGroup" in listed.stdout
        and "te.ops" not in listed.stdout
    )
    last = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)[
        "groups"
    ][-1]["id"]
    assert (
        "Transformer Engine's operation fuser"
        in fusiondoc("repro", folder, "--group", last).stderr
    )


def changed(folder: Path, program: str, **more: Any) -> Path:
    """A capture with its training plan once more, as other circumstances make
    it."""
    made = capture(folder, program)
    lines = [
        json.loads(line)
        for line in (made / RECORDS).read_text("utf-8").splitlines()
    ]
    plan = {
        **next(one for one in lines if one["record"] == "te_plan"),
        "plan": 99,
        **more,
    }
    text = "".join(json.dumps(one) + "\n" for one in (*lines, plan))
    (made / RECORDS).write_text(text, encoding="utf-8")
    return made


def findings(fusiondoc: Run, folder: Path, code: str) -> list[dict[str, Any]]:
    report = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)
    assert not [one for one in report["findings"] if one["code"] == "FD116"]
    return [one for one in report["findings"] if one["code"] == code]


def test_a_plan_that_is_older_than_the_type_of_the_weights(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """FD118: the rules saw float32, and are not asked again."""
    folder = changed(tmp_path / "one", "bias in float32", now=["bfloat16", None])
    (told,) = findings(fusiondoc, folder, "FD118")
    assert (
        "Weights were float32 when Transformer Engine planned and are bfloat16 now"
        in told["message"]
    )
    plan = json.loads(fusiondoc("parse", folder, "--format", "json").stdout)["plan"]
    assert plan[0]["change"] == "Convert the model before its first call"
    assert (
        findings(fusiondoc, capture(tmp_path / "two", "bias in float32"), "FD118")
        == []
    )


def test_fusions_that_the_program_took_out(fusiondoc: Run, tmp_path: Path) -> None:
    """The plan is held against the rules that were left: no FD116."""
    name = "ForwardLinearBiasActivation.fuse_forward_ops"
    plain = {"kind": "BasicLinear", "operators": [0], "fused": False, "own": False}
    basic = [plain, {**plain, "kind": "Bias", "operators": [1]}]
    folder = changed(
        tmp_path / "one", "bias in float16", taken_out=[name], forward=basic
    )
    told = [one["message"] for one in findings(fusiondoc, folder, "FD117")]
    assert f"The program took fusions of Transformer Engine out: {name}" in told


class Held:
    """A module as holds_te sees one."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def modules(self) -> list[Any]:
        return [self]


def test_what_comes_to_transformer_engine_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sequence in a tuple, one that a function names, and modules that
    TorchScript cannot take."""
    from types import ModuleType

    from fusiondoc.probe.frontends import holds_te
    from fusiondoc.probe.te_plans import OPS

    class Sequence:
        def __call__(self) -> None:
            pass

    class Linear(Held):
        __module__ = "transformer_engine.pytorch.module.linear"

    sequence, te = Sequence(), ModuleType(OPS)
    assert not holds_te(Held(block=sequence))  # Transformer Engine was not imported
    monkeypatch.setitem(sys.modules, OPS, te)
    vars(te).update(Sequential=Sequence, FusibleOperation=Sequence)

    def named(x: Any) -> Any:
        return sequence()

    yes = (Held(made=(sequence,)), Held(made={"one": [sequence]}), Linear(), named)
    no = (Held(made=None), Held(made=("text", 3)), len, lambda x: x)
    assert [holds_te(one) for one in (*yes, *no)] == [True] * 4 + [False] * 4


def test_a_reason_names_the_recipe_of_the_run_that_fuses_it(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Of a real run under no recipe and three others: what is told for the first is
    no riddle."""
    report = json.loads(
        fusiondoc(
            "parse", real_capture(tmp_path / "one", "mlp"), "--format", "json"
        ).stdout
    )
    (text,) = {
        one["reason"]["text"]
        for one in report["unfused"]
        if one["reason"]["code"] == "FD244"
    }
    recipes = "DelayedScaling and Float8BlockScaling and Float8CurrentScaling"
    assert text.endswith(f"nothing is quantized; it is fused with {recipes}")


def test_equal_fusers_and_equal_plans_are_shown_once(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Two layers of one line: one block of text, with both numbers; a plan that
    repeats is a line."""
    folder = capture(tmp_path / "one", "bias in float16")
    text = (folder / RECORDS).read_text("utf-8")
    again = text.replace('"fuser": ', '"fuser": 5').replace('"plan": ', '"plan": 5')
    more = [
        line
        for line in again.splitlines()
        if '"te_fuser"' in line or '"te_plan"' in line
    ]
    (folder / RECORDS).write_text(text + "\n".join(more) + "\n", encoding="utf-8")
    said = fusiondoc("parse", folder).stdout
    assert said.count("Fusers 1, 2") == 1 and "Fuser 2" not in said
    assert "forward, inference, no recipe: as in training, no recipe" in said
