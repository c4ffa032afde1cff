"""Programs as people run them: ``-m package``, several models in one program, steps, and those that never
reach TorchScript."""

from __future__ import annotations

import ast
import json
import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import multiprocessing.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run
from running import write

import fusiondoc as api
from fusiondoc.captures.process_records import StepsTaken
from fusiondoc.captures.request import parse_module
from fusiondoc.errors import UsageError
from fusiondoc.model.bench import of_processes, ratio
from fusiondoc.model.script_models import ScriptRun
from fusiondoc.probe.log_and_records import Records
from fusiondoc.probe.program_watch import _definition
from fusiondoc.workflows.follow_ups import _why_not

PROGRAM = """
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from . import width


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(width.WIDTH, width.WIDTH)

    def forward(self, x):
        return torch.relu(self.inner(x) * 0.5 + x)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(width.WIDTH, 1)

    def forward(self, x):
        return torch.tanh(self.out(x) * 0.5 + 1.0)


@torch.jit.script
def loss_of(y, t):
    d = (y - t).abs()
    return (d * d * 0.5).sum()


@torch.jit.script
def never_called(y):
    return y.exp() + 1.0


def main():
    first, second = torch.jit.script(Block()), torch.jit.script(Block())
    head = torch.jit.trace(Head(), torch.randn(2, width.WIDTH))
    data = TensorDataset(torch.randn(8, width.WIDTH), torch.randn(8, 1))
    weights = [*first.parameters(), *second.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.01)
    for x, t in DataLoader(data, batch_size=2, num_workers=1):
        optimizer.zero_grad()
        loss_of(head(second(first(x))), t).backward()
        optimizer.step()
    print("arguments", sys.argv[1:], __name__, __spec__.name)


if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    write(folder, "net/__init__.py", "")
    write(folder, "net/width.py", "WIDTH = 4")
    write(folder, "net/__main__.py", PROGRAM)
    return folder


def test_models_of_a_package(program: Path, fusiondoc: Run) -> None:
    done = fusiondoc(
        "diagnose",
        "-m",
        "net",
        "--fuser",
        "nnc",
        "--format",
        "json",
        "--",
        "--epochs",
        "2",
        cwd=program,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    log = next((program / ".fusiondoc").glob("*-net")) / "log"
    assert "arguments ['--epochs', '2'] __main__ net.__main__" in log.read_text(
        errors="replace"
    )
    script = report["script"]
    models = {one["name"]: one for one in script["models"]}
    assert list(models) == ["loss_of", "never_called", "Block", "Head"]
    assert [models[name]["how"] for name in models] == [
        "scripted",
        "scripted",
        "scripted",
        "traced",
    ]
    assert (
        models["Block"]["count"] == 2
    )  # two instances of one class share code and executor
    source = PROGRAM.split("\n")
    made, unused = (
        f"net/__main__.py:{1 + next(n for n, line in enumerate(source) if word in line) - up}"
        for word, up in (("jit.script(Block", 0), ("def never_called", 1))
    )
    assert models["Block"]["at"].endswith(made)
    assert (script["steps"], script["step_by"], script["reached"]) == (
        4,
        "SGD.step",
        True,
    )
    assert (
        models["never_called"]["planned"] is False
        and models["never_called"]["groups"] == []
    )
    # Every group is of exactly one model, as its lines say: an oracle that knows no layers.
    lines = {"Block": "self.inner(x) * 0.5 + x", "Head": "self.out(x) * 0.5 + 1.0"}
    for group in report["groups"]:
        owners = [
            name for name, one in models.items() if group["id"] in one["groups"]
        ]
        assert len(owners) == 1, group
        for node in group["nodes"]:
            if node["user_source"] is not None and owners[0] in lines:
                assert (
                    lines[owners[0]]
                    in source[int(node["user_source"].rpartition(":")[2]) - 1]
                )
    assert {group["phase"] for group in report["groups"]} == {"forward", "backward"}
    assert all(
        one["groups"] for name, one in models.items() if name != "never_called"
    )
    text = fusiondoc("parse", cwd=program).stdout
    assert f"Block x2: scripted in {made}, group" in text
    assert f"never_called: scripted in {unused}, no plan was made of it" in text
    assert "4 steps (SGD.step)" in text
    page = fusiondoc("parse", "--format", "html", cwd=program).stdout
    assert f"Block x2: scripted in {made}" in page.replace("<wbr>", "")


def test_a_program_that_stays_eager_says_so(tmp_path: Path, fusiondoc: Run) -> None:
    write(
        tmp_path,
        "train.py",
        """
        import torch
        weight = torch.randn(4, requires_grad=True)
        optimizer = torch.optim.Adam([weight])
        for _ in range(3):
            weight.sum().backward()
            optimizer.step()
        """,
    )
    done = fusiondoc("diagnose", "--script", "train.py", cwd=tmp_path)
    text = " ".join(done.stdout.split())
    assert (
        "nothing: the program never reached TorchScript; it ran eager PyTorch, 3 times Adam.step"
        in text
    )
    assert [
        line for line in done.stdout.split("\n") if "unknown: the log" in line
    ] == []


def test_what_ran_instead() -> None:
    run = ScriptRun((), 4, "SGD.step", 2, 3, 7, False)
    assert (
        run.instead
        == "torch.compile (functions: 2, graphs: 3, inductor kernels: 7), 4 times SGD.step"
    )
    assert ScriptRun((), 0, None, 0, 0, 0, False).instead == "eager PyTorch"


STEPS = """
import torch


@torch.jit.script
def net(x):
    return torch.relu(x * 2.0) + 1.0


class Loop:
    def step(self, x):
        return net(x)


for _ in range(24):
    Loop().step(torch.ones(4))
"""


def test_time_of_a_script(tmp_path: Path, fusiondoc: Run) -> None:
    write(tmp_path, "serve.py", STEPS)
    options = (
        "--fuser",
        "none",
        "--time",
        "--step-function",
        "Loop.step",
        "--format",
        "json",
    )
    done = fusiondoc("diagnose", "--script", "serve.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    eager, scripted = report["speed"]
    assert (eager["way"], scripted["way"]) == ("eager", "scripted")
    # Two processes of 24 steps: 23 intervals each, of which the first six do not count.
    assert [(row["phase"], row["passes"]) for row in report["speed"]] == [
        ("step", 34),
        ("step", 34),
    ]
    assert (
        scripted["ratio"]["low"]
        <= scripted["ratio"]["value"]
        <= scripted["ratio"]["high"]
    )
    assert (
        "from one Loop.step to the next; 2 processes each way"
        in report["speed_note"]
    )
    assert "eager is the script with PYTORCH_JIT=0" in report["speed_note"]
    assert (
        report["steps"]["steps"] == 12
        and report["script"]["step_by"] == "Loop.step"
    )
    assert report["steps"]["unprofiled_ms"] == scripted["ms"]["median"]


def test_why_a_script_has_no_time() -> None:
    assert "--step-function NAME" in str(_why_not(StepsTaken(), None))
    assert (
        _why_not(StepsTaken(), "train")
        == "no speed: the program never called train"
    )
    few = StepsTaken("SGD.step", 12, (1.0,) * 11)
    assert _why_not(few, None) == (
        "no speed: the program takes 12 steps (SGD.step); 6 warm up, and at least 7 more are needed"
    )
    assert _why_not(StepsTaken("SGD.step", 13, (1.0,) * 12), None) is None
    gone = StepsTaken(why_not="there is no function f in the program")
    assert (
        _why_not(gone, "f")
        == "no speed: --step-function: there is no function f in the program"
    )


def test_the_interval_holds_what_processes_differ() -> None:
    eager = [[10.0, 10.1, 9.9] * 5, [10.0, 10.1, 9.9] * 5]
    variant = [
        [11.9, 12.0, 11.8] * 5,
        [6.2, 6.3, 6.25] * 5,
    ]  # as seen of one program on a busy host
    alone = [ratio(eager[n], variant[n]) for n in (0, 1)]
    both = of_processes(eager, variant)
    assert alone[0].high < 1 and alone[1].low > 1
    assert both.low < alone[0].value and both.high > 1.59 and not both.differs


def test_the_last_definition_counts_also_inside_blocks() -> None:
    source = (
        "def f(): pass\nif x:\n    def f(): pass\nclass A:\n    def f(self): pass\n"
    )
    body = ast.parse(source).body
    assert _definition(body, ["f"]).lineno == 3
    assert _definition(body, ["A", "f"]).lineno == 5
    assert (
        _definition(body, ["B", "f"]) is None and _definition(body, ["A"]) is None
    )


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            ["-m", "nowhere_here"],
            "there is no module nowhere_here",
            "folder that python -m nowhere_here",
        ),
        (
            ["-m", "net.py"],
            "-m net.py: not the name of a module",
            "--script net.py",
        ),
        (
            ["-m", "net", "--script"],
            "--script is for a file, and -m for a module",
            "Leave one",
        ),
        (
            ["net.py", "--step-function", "f"],
            "--step-function is for a script",
            "--script FILE.py",
        ),
        (
            ["--script", "net.py", "--step-function", "f("],
            "not the name of a function",
            "train_step",
        ),
        (
            ["nowhere"],
            "'nowhere' is not a target",
            "to run it as a program: -m nowhere",
        ),
    ],
)
def test_what_cannot_be_run(
    tmp_path: Path, fusiondoc: Run, arguments: list[str], said: str, hint: str
) -> None:
    write(tmp_path, "net.py", "print(1)")
    done = fusiondoc("diagnose", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and hint in done.stderr, (
        done.stderr
    )
    assert "Traceback" not in done.stderr


def test_from_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown frontend 'aott'"):
        api.diagnose("m.py", frontend="aott", folder=tmp_path)
    assert (
        parse_module("a.b").label == "a.b" and parse_module("a.b").kind == "module"
    )


ALIKE = """
import sys, types

import torch


class AcceleratedOptimizer(torch.optim.Optimizer):  # accelerate/optimizer.py, 1.15
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self._method = types.MethodType(lambda self, *a, **k: optimizer.step(*a, **k), self)

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def zero_grad(self, set_to_none=None):
        self.optimizer.zero_grad()

    def step(self, closure=None):
        return self._method(closure)


class Trainer:  # of a library; the optimizer calls a closure, as Lightning's does
    def __init__(self, model, data, steps):
        self.model, self.data, self.steps = model, data, steps

    def train(self):
        own = torch.optim.SGD(self.model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(own, lambda step: 1.0)  # it replaces own.step
        optimizer = AcceleratedOptimizer(own)
        loader = torch.utils.data.DataLoader(self.data, batch_size=2)
        for done, batch in enumerate(loader):
            def closure():
                optimizer.zero_grad()
                with torch.autocast("cpu", enabled=False):
                    loss = self.model(**batch)["loss"]
                loss.backward()
                return loss

            optimizer.step(closure)
            schedule.step()
            if done + 1 == self.steps:
                break
        sys.exit(0)
"""
ALIKE_MAIN = """
import torch
from alike.trainer import Trainer


@torch.jit.script
def quick_gelu(x):
    return torch.sigmoid(x * 1.702) * x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x, labels=None):
        out = quick_gelu(self.inner(x))
        return {"loss": (out.sum(1) - labels).pow(2).sum(), "out": out}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return {"x": torch.full((4,), float(index)), "labels": torch.tensor(1.0)}


if __name__ == "__main__":
    Trainer(Model(), Data(), steps=4).train()
"""


def test_a_trainer_that_works_as_those_of_libraries(
    tmp_path: Path, fusiondoc: Run
) -> None:
    """For where neither library is: an optimizer in another one, with a closure and a scheduler around its
    step, called by a package; one step is one step."""
    write(tmp_path, "train.py", ALIKE_MAIN)
    write(tmp_path, "alike/__init__.py", "")
    write(tmp_path, "alike/trainer.py", ALIKE)
    done = fusiondoc(
        "diagnose",
        "--script",
        "train.py",
        "--fuser",
        "nnc",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (only,) = report["script"]["models"]
    assert (
        only["name"] == "quick_gelu"
        and only["groups"] == [group["id"] for group in report["groups"]] != []
    )
    assert {group["phase"] for group in report["groups"]} == {"forward", "backward"}
    assert (report["script"]["steps"], report["script"]["step_by"]) == (
        4,
        "SGD.step",
    )


SPAWNING = """
import torch
from functorch.compile import memory_efficient_fusion


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index))


fused = memory_efficient_fusion(lambda x: torch.relu(x * 2.0) + 1.0)


def work(rank):
    net = torch.jit.script(torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh()))
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)
    for x in loader:
        net(x * weight).sum().backward()
        fused(x * weight).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=2, num_workers=1, multiprocessing_context="spawn"
    )
    assert len(list(loader)) == 4
    torch.multiprocessing.spawn(work, nprocs=2)
"""


@pytest.mark.cold
@pytest.mark.nightly
def test_processes_that_are_spawned_get_the_fuser(
    tmp_path: Path, fusiondoc: Run
) -> None:
    write(tmp_path, "train.py", SPAWNING)
    done = fusiondoc(
        "diagnose",
        "--script",
        "train.py",
        "--fuser",
        "nnc",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["groups"], "without it NNC may not fuse on the CPU there"
    (only,) = report["script"]["models"]  # both processes script it
    assert only["name"] == "Sequential"
    assert (report["script"]["steps"], report["script"]["step_by"]) == (
        4,
        "SGD.step",
    )
    (row,) = report["aot"]
    assert (row["processes"], row["calls"], row["compiles"]) == (2, 4, 1)
    assert all(graph["fused"] for graph in row["graphs"][1:])


class Torchless:
    """What a process that is started gets unpickled there, in one without torch and fusiondoc."""

    def __init__(self, folder: Path, data: list[bytes]) -> None:
        self.begun = folder / "begun"
        there = f"""
import pickle, sys, types
sys.modules["torch"] = types.ModuleType("torch")
from importlib.util import spec_from_loader, module_from_spec
class Begins(types.ModuleType):
    def __getattr__(self, name):
        return lambda *asked: open({str(self.begun)!r}, "a").write(name + repr(asked) + ";")
sys.modules["fusiondoc.probe.script_run"] = Begins("script_run")
for data in {data!r}:
    sent = pickle.loads(data)
assert sent["name"] == "worker"
"""
        self.done = subprocess.run(
            [sys.executable, "-I", "-c", there], capture_output=True, text=True
        )


def test_what_is_sent_to_a_spawned_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unpickled there, it begins; here it must be gone again."""
    from fusiondoc.probe import script_run

    sent = []
    kind = multiprocessing.process.BaseProcess
    monkeypatch.setattr(
        multiprocessing.spawn, "get_preparation_data", lambda name: {"name": name}
    )
    monkeypatch.setattr(
        kind, "start", lambda self: sent.append(pickle.dumps(self._fusiondoc))
    )
    asked = script_run.ProcessSettings(
        "nnc", {"single_node": "on"}, None, True, False, None, False
    )
    script_run.follow(asked, Records(str(tmp_path / "records")), [])
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    assert not hasattr(process, "_fusiondoc")
    preparation = pickle.dumps(multiprocessing.spawn.get_preparation_data("worker"))
    there = Torchless(tmp_path, [preparation])
    assert (there.done.returncode, there.done.stderr) == (0, "")
    assert (
        there.begun.read_text()
        == "arrived('nnc', {'single_node': 'on'}, None, True, False, None, False);"
    )
    assert b"main_is_there" in sent[0]


def test_what_a_fork_tells_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent tells what was done before; the number of the process tells the two apart."""
    from fusiondoc.probe import script_run

    class Watching:
        told = 5

        def forget(self) -> None:
            self.told = 0

        def finish(self) -> None:
            records.write("told", count=self.told)

    records = Records(str(tmp_path / "records"))
    of_parent = script_run._Watched(records, [Watching()])
    of_parent._finish()
    ends: list[object] = []
    monkeypatch.setattr(
        multiprocessing.util,
        "Finalize",
        lambda _, end, exitpriority: ends.append(end),
    )
    monkeypatch.setattr(script_run, "name_by_content", lambda home: None)
    in_fork = script_run._Watched(records, [Watching()])
    in_fork._began()
    for end in [*ends, *ends]:
        end()
    rows = [
        json.loads(line) for line in (tmp_path / "records").read_text().splitlines()
    ]
    told = [
        {"record": "told", "count": 5},
        {"record": "told", "count": 0, "process": os.getpid()},
    ]
    assert rows == told


def test_a_step_function_of_a_spawned_main_module(tmp_path: Path) -> None:
    """As multiprocessing imports it there."""
    import runpy
    import types

    import torch

    from fusiondoc.probe.program_watch import ScriptSteps

    write(
        tmp_path,
        "m.py",
        "def step(): pass\ndef work():\n    for _ in range(3): step()\n",
    )
    main = types.ModuleType("__mp_main__")
    vars(main).update(
        runpy.run_path(str(tmp_path / "m.py"), run_name="__mp_main__")
    )
    records = Records(str(tmp_path / "records"), process=7)
    steps = ScriptSteps(torch, records, "step", timed=False)
    steps.look_in(main)
    main.work()
    steps.finish()
    (told,) = (
        json.loads(line) for line in (tmp_path / "records").read_text().splitlines()
    )
    assert (told["by"], told["count"], told["process"], told["why_not"]) == (
        "step",
        3,
        7,
        None,
    )


def test_code_is_named_by_its_content() -> None:
    from fusiondoc.probe.script_run import name_by_content

    class Loader:
        next_id = 3

        def cache(self, source: str, more: object) -> str:
            return f"<eval_with_key>.{self.next_id}"

    class Home:
        _loader = Loader()

    class Other:
        _loader = Loader()

    name_by_content(Home)
    name_by_content(Other)
    first, second = (Home._loader.cache(code, {}) for code in ("a", "b"))
    assert first != second and Home._loader.cache("a", {}) not in (first, second)
    assert [Other._loader.cache(code, {}) for code in ("b", "a")] == [second, first]
