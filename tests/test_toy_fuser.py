"""A new fuser of TorchScript is one object: what it prints is seen in every report
and in ``check``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import ROOT, Run

TENSOR = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)"
LOG = f"""[DUMP toy_fuser.cpp:110] Before ToyFuser:
[DUMP toy_fuser.cpp:110] graph(%x : {TENSOR}):
[DUMP toy_fuser.cpp:110]   %a : {TENSOR} = aten::mul(%x, %x) # model.py:1:4
[DUMP toy_fuser.cpp:110]   %b : {TENSOR} = aten::tanh(%a) # model.py:2:4
[DUMP toy_fuser.cpp:110]   %c : {TENSOR} = aten::cumsum(%b, %b) # model.py:3:4
[DUMP toy_fuser.cpp:110]   %d : {TENSOR} = aten::erfinv(%c) # model.py:4:4
[DUMP toy_fuser.cpp:110]   return (%d)
[UPDATE toy_fuser.cpp:120] skipping node (too many dims): %c : {TENSOR} = aten::cumsum(%b, %b) # model.py:3:4
[UPDATE toy_fuser.cpp:120] skipping node (no kernel): %d : {TENSOR} = aten::erfinv(%c) # model.py:4:4
[DUMP toy_fuser.cpp:130] After ToyFuser:
[DUMP toy_fuser.cpp:130] graph(%x : {TENSOR}):
[DUMP toy_fuser.cpp:130]   %b : {TENSOR} = prim::ToyGroup_0(%x)
[DUMP toy_fuser.cpp:130]   %c : {TENSOR} = aten::cumsum(%b, %b) # model.py:3:4
[DUMP toy_fuser.cpp:130]   %d : {TENSOR} = aten::erfinv(%c) # model.py:4:4
[DUMP toy_fuser.cpp:130]   return (%d)
[DUMP toy_fuser.cpp:130] with prim::ToyGroup_0 = graph(%x : {TENSOR}):
[DUMP toy_fuser.cpp:130]   %a : {TENSOR} = aten::mul(%x, %x) # model.py:1:4
[DUMP toy_fuser.cpp:130]   %b : {TENSOR} = aten::tanh(%a) # model.py:2:4
[DUMP toy_fuser.cpp:130]   return (%b)
"""


_COMMANDS = """
import json, sys
from pathlib import Path
from toy_fuser import TOY, register
register(TOY)
from command_line import runs_in_this_process
for line in sys.stdin:
    folder, arguments = json.loads(line)
    done = runs_in_this_process(Path(folder), Path(folder))(*arguments)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    """A process in which the fuser is registered before anything else is imported,
    for all commands."""
    made = subprocess.Popen(
        [sys.executable, "-c", _COMMANDS],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with made:
        yield made
        assert made.stdin is not None
        made.stdin.close()


Toy = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(process: subprocess.Popen[str]) -> Toy:
    def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps([str(folder), arguments]), file=process.stdin, flush=True)
        return subprocess.CompletedProcess(
            arguments, *json.loads(process.stdout.readline())
        )

    return run


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy.log").write_text(LOG)
    return tmp_path


def test_json_has_its_group_and_what_it_refuses(toy: Path, run: Toy) -> None:
    done = run(toy, "parse", "toy.log", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (group,) = report["groups"]
    assert (group["kind"], [node["op"] for node in group["nodes"]]) == (
        "ToyGroup",
        ["aten::mul", "aten::tanh"],
    )
    assert report["fuser"]["effective"] == "toy"
    reasons = {row["op"]: row["reason"] for row in report["unfused"]}
    assert (
        reasons["aten::cumsum"]["text"]
        == "the toy fuser takes at most two dimensions"
    )
    assert reasons["aten::erfinv"]["text"] == "the toy fuser has no kernel for it"
    assert reasons["aten::erfinv"]["detail"]["condition"] == "toy_no_kernel"
    assert all(reason["stated"] for reason in reasons.values())
    assert report["parse"]["unrecognised"] == 0


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_documents_show_it(toy: Path, run: Toy, form: str) -> None:
    done = run(toy, "parse", "toy.log", "--format", form)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "the toy fuser has no kernel for it" in text
    assert (
        "ToyGroup" in text or form == "markdown"
    )  # which names no kinds of groups
    assert "aten::cumsum" in text


def test_check_holds_its_groups(toy: Path, run: Toy) -> None:
    (toy / "fusions.yaml").write_text(
        "when:\n  fuser: toy\ngroups:\n  - [mul, tanh]\n"
    )
    held = run(toy, "check", "toy.log", "--expect", "fusions.yaml")
    assert held.returncode == 0, held.stdout + held.stderr
    (toy / "fusions.yaml").write_text("groups:\n  - [mul, tanh, cumsum]\n")
    lost = run(toy, "check", "toy.log", "--expect", "fusions.yaml")
    assert lost.returncode == 1
    assert "the toy fuser takes at most two dimensions" in " ".join(
        lost.stdout.split()
    )


def test_without_it_the_group_is_not_known(toy: Path, fusiondoc: Run) -> None:
    done = fusiondoc("parse", "toy.log", "--format", "json", cwd=toy)
    assert json.loads(done.stdout)["groups"] == []


def test_its_fields_decide_what_the_log_does_not_state(toy: Path, run: Toy) -> None:
    wide = TENSOR.replace("4, 8, strides=[8, 1]", "2, 4, 8, strides=[32, 8, 1]")
    line = f"%d : {TENSOR} = aten::erfinv(%c) # model.py:4:4\n"
    added = f"{line}[DUMP toy_fuser.cpp:130]   %e : {wide} = aten::relu(%w) # model.py:5:4\n"
    before, mark, after = LOG.partition("[DUMP toy_fuser.cpp:130] After ToyFuser:")
    plan = after.replace(
        f"graph(%x : {TENSOR})", f"graph(%x : {TENSOR}, %w : {wide})", 1
    )
    plan = plan.replace(line, added, 1).replace("return (%d)", "return (%d, %e)", 1)
    (toy / "toy.log").write_text(before + mark + plan)
    done = run(toy, "parse", "toy.log", "--format", "json")
    (reason,) = [
        row["reason"]
        for row in json.loads(done.stdout)["unfused"]
        if row["op"] == "aten::relu"
    ]
    assert (reason["code"], reason["stated"]) == ("FD224", False)
    assert (reason["detail"]["dimensions"], reason["detail"]["most"]) == (3, 2)
    assert reason["text"] == "a tensor of 3 dimensions; the toy fuser takes up to 2"


def test_groups_of_its_second_kind_are_its_own(toy: Path, run: Toy) -> None:
    (toy / "toy.log").write_text(
        LOG.replace("prim::ToyGroup_0", "prim::ToyLibraryCall_0")
    )
    done = run(toy, "parse", "toy.log", "--format", "json")
    report = json.loads(done.stdout)
    assert [group["kind"] for group in report["groups"]] == ["ToyLibraryCall"]
    assert report["fuser"]["effective"] == "toy"


def test_a_fuser_without_dumps_prints_no_kernels_that_are_read(
    toy: Path, run: Toy
) -> None:
    done = run(toy, "kernels", "toy.log")
    note = "fusiondoc reads no kernels of the toy fuser; it reads those of nvFuser and NNC"
    assert note in " ".join(done.stderr.split())


def test_its_dump_is_no_output_of_the_program(
    toy: Path, run: Toy, fusiondoc: Run
) -> None:
    (toy / "toy.log").write_text(f"Toy plan {{\n  mul\n  tanh\n}}\n{LOG}")
    arguments = ("parse", "toy.log", "--format", "json")
    with_it, without = run(toy, *arguments), fusiondoc(*arguments, cwd=toy)
    printed = [
        json.loads(done.stdout)["parse"]["user_output"]
        for done in (with_it, without)
    ]
    assert printed == [0, 4]
