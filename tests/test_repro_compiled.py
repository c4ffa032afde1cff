"""Parts of graphs of torch.compile as scripts (``fusiondoc repro --boundary``,
``--kernel``, ``--group``)."""

from __future__ import annotations

import ast
import json
import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import thorough
import warm_torch
from conftest import Run
from inductor_recordings import RECORDINGS, Recording
from running import python_apart

from fusiondoc.errors import UsageError
from fusiondoc.fusers.inductor.compilation import GraphOperator
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.repro.of_fusers.compiled_cut import CompiledPart, PartInput
from fusiondoc.repro.of_fusers.compiled_parts import CompiledParts, Wanted
from fusiondoc.repro.of_fusers.compiled_script import script_of

NOT_SHOWN = re.compile(
    r"does not show the operators of this part|is no operator of torch itself|is no literal"
)


def scripts_of(recording: Recording, folder: Path) -> Iterator[Path]:
    """The script of every boundary, group and kernel that has one."""
    logs = [LogInput(path.name, path) for path in (recording.log, recording.trace)]
    report, observed = read_logs(logs)
    assert observed.compilation is not None
    parts = CompiledParts(report, observed.compilation, recording.name)
    for row in parts.listed():
        option, value = row.option.split()
        names = {"--boundary": "boundary", "--kernel": "kernel", "--group": "group"}
        wanted = replace(
            Wanted(),
            **{names[option]: int(value) if option == "--boundary" else value},
        )
        try:
            script = folder / f"{recording.name}-{value}.py"
            lines = list(parts.write(wanted, script, True))
            assert lines[-1].startswith(f"wrote {script}")
            yield script
        except UsageError as error:
            assert error.hint and NOT_SHOWN.search(error.message), error.message


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)
def test_statements_of_scripts_are_those_that_torch_printed(
    recording: Recording, tmp_path: Path
) -> None:
    printed = lzma.decompress(recording.trace.read_bytes()) + lzma.decompress(
        recording.log.read_bytes()
    )
    calls = {
        ast.unparse(ast.parse(found).body[0])
        for found in re.findall(r" = (torch\.ops\.[^;\n]+\))", printed.decode())
    }
    for script in scripts_of(recording, tmp_path):
        (model,) = (
            one
            for one in ast.parse(script.read_text()).body
            if getattr(one, "name", None) == "model"
        )
        written = [
            ast.unparse(one.value)
            for one in ast.walk(model)
            if isinstance(one, ast.Assign)
        ]
        assert written and calls.issuperset(
            call for call in written if call.startswith("torch.ops")
        )


RUN = """
import sys
import torch, torch._inductor.inductor_prims
for path in sys.argv[1:]:
    text = open(path).read().replace("'cuda:0'", "'cpu'").replace("type='cuda', index=0", "type='cpu'")
    names = {"__name__": "script"}
    exec(compile(text, path, "exec"), names)
    assert names["model"](*names["inputs"]), path
    print(path)
"""


@pytest.mark.torch
def test_scripts_run_and_have_results(tmp_path: Path) -> None:
    recordings = thorough.every(4, RECORDINGS)
    written = [
        str(path)
        for recording in recordings
        for path in scripts_of(recording, tmp_path)
    ]
    assert len(written) > thorough.least(100)
    scripts = thorough.every(5, list(dict.fromkeys(written)))
    done = python_apart(
        *scripts, code=RUN, env={**os.environ, **warm_torch.COMPILES}
    )
    assert done.stdout.split() == scripts, done.stderr[-2000:]


PROGRAM = """
import torch

def model(x, w):
    y = torch.relu(x @ w) * 2
    return y.sum(0), y.softmax(-1), y.flip(0) + y.sum(1, keepdim=True)

inputs = (torch.randn(32, 64), torch.randn(64, 64))
"""


@pytest.mark.torch
@pytest.mark.nightly
def test_a_script_shows_the_same_boundary(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    made = ("--fuser", "inductor", "--no-run", "--format", "json")
    assert (
        fusiondoc(
            "diagnose", "program.py", *made, "--output", "report.json"
        ).returncode
        == 0
    )
    report = json.loads((tmp_path / "report.json").read_text())
    number = next(
        at
        for at, one in enumerate(report["boundaries"], 1)
        if one["producer"]["group"] and one["consumer"]["group"]
    )
    wanted = report["boundaries"][number - 1]
    done = fusiondoc(
        "repro", "report.json", "--boundary", number, "--output", "part.py"
    )
    assert done.returncode == 0, done.stderr
    again = fusiondoc("diagnose", "part.py", *made)
    found = json.loads(again.stdout)["boundaries"]
    keys = ("tensor", "bytes", "kind")
    assert [
        (*(one[key] for key in keys), one["cause"]["code"]) for one in found
    ] == [(*(wanted[key] for key in keys), wanted["cause"]["code"])]


TENSOR = PartInput("x", "f32[8][1]cpu", "float32", (8,), (1,))


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("aten.sin.default", "__import__('os').system('id')"),
        ("aten.sin.default", "x.__class__"),
        ("aten.sin.default", "x) + (x"),
        ("aten.sin.default", "lambda: x"),
        ("aten.sin.default", "x, **{'a': x}"),
        ("aten.sin.default", "*x"),
        ("aten.sin.default", "y"),
        ("aten.from_file.default", "'/etc/passwd', None, 8"),
        ("aten.sin.default", "device(type='cpu').type"),
        ("aten.sin.default", "torch.load"),
        ("aten.sin.default", "x[print(x)]"),
        ("aten.sin.default", "(x"),
        ("aten.sin.default", "1" * 30),
        ("getitem", "x, 0, 1"),
        ("load_library.sin.default", "x"),
        ("aten.sin.default(x); import os; os.a", "x"),
        ("lab.twice.default", "x"),
    ],
)
def test_a_script_holds_only_operators_and_literals(
    target: str, arguments: str
) -> None:
    part = CompiledPart(
        (
            GraphOperator(
                "sin", "call_function", target, ("x",), arguments=arguments
            ),
        ),
        (TENSOR,),
        ("sin",),
    )
    with pytest.raises(UsageError) as raised:
        script_of(part, "A part.", "a command")
    assert raised.value.hint


@pytest.mark.parametrize(
    "name", ["torch", "print", "import", "a b", "x\n", "__import__", "made"]
)
def test_names_of_values_shadow_nothing(name: str) -> None:
    part = CompiledPart(
        (
            GraphOperator(
                name, "call_function", "aten.sin.default", ("x",), arguments="x"
            ),
        ),
        (TENSOR,),
        (name,),
    )
    with pytest.raises(UsageError, match="is no name of a value"):
        script_of(part, "A part.", "a command")


def test_a_title_ends_no_docstring() -> None:
    part = CompiledPart(
        (
            GraphOperator(
                "sin", "call_function", "aten.sin.default", ("x",), arguments="x"
            ),
        ),
        (TENSOR,),
        ("sin",),
    )
    text = script_of(part, 'A """\nimport os # of \\', "a command")
    assert ast.get_docstring(ast.parse(text)) and "import os" not in [
        line.strip() for line in text.split("\n")
    ]


RECORDING = next(one for one in RECORDINGS if one.name == "2.11-composite")


def test_without_an_option_the_parts_are_listed(fusiondoc: Run) -> None:
    done = fusiondoc("repro", RECORDING.log)
    assert done.returncode == 0
    options = [tuple(line.split()[:2]) for line in done.stdout.splitlines()]
    assert (
        ("--boundary", "1") in options
        and ("--group", "G1") in options
        and ("--kernel", "K1") in options
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--boundary", "99"), "there is no boundary 99"),
        (("--kernel", "K99"), "there is no kernel 'K99'"),
        (("--group", "G99"), "there is no group 'G99'"),
        (("--boundary", "1", "--kernel", "K1"), "name different parts"),
        (
            ("--group", "G1", "--minimise", "--trust-log"),
            "--minimise is for groups of TorchScript",
        ),
    ],
)
def test_wrong_parts(
    fusiondoc: Run, arguments: tuple[str, ...], message: str
) -> None:
    done = fusiondoc("repro", RECORDING.log, *arguments)
    assert (
        done.returncode == 2 and message in done.stderr and "next: " in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_a_log_without_the_graph_says_how_to_get_it(
    fusiondoc: Run, tmp_path: Path
) -> None:
    lines = lzma.decompress(RECORDING.log.read_bytes()).splitlines(keepends=True)
    log = tmp_path / "fusion.log"
    log.write_bytes(
        b"".join(line for line in lines if b"post_grad_graphs" not in line)
    )
    done = fusiondoc("repro", log, "--kernel", "K1")
    assert done.returncode == 2 and "TORCH_LOGS=post_grad_graphs" in done.stderr
