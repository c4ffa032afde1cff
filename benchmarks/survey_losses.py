"""A fleet with known losses and harmless changes, and what ``fusiondoc survey``
says of it: how many of its rows are right, how many losses it misses, and how far
its dates are off.

    python benchmarks/survey_losses.py --seed 1 --seed 2 --seed 3

A year of runs of many models on twelve machines (three GPUs; drivers, torch and
fusiondoc are upgraded machine by machine or all at once), each model with a commit
a week that moves its lines. ``LOSSES`` and ``HARMLESS`` name what happens to each
model; every other model has only noise (a run in a hundred fails, in another one a
group is missing). The command line is run as a user runs it, over files.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIRST_DAY = datetime.date(2025, 1, 1)
DAYS = 360
GPUS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA L40S")
NEW_GPU = "NVIDIA H200"
TORCH = (("1.13.1+cu117", "11.7"), ("2.0.1+cu118", "11.8"), ("2.1.2+cu121", "12.1"))
DRIVERS = ("525.147.05", "535.104.05", "550.54.15")
FUSIONDOC = ("0.1.0", "0.2.0")
OPERATORS = [
    "add",
    "mul",
    "sub",
    "div",
    "relu",
    "gelu",
    "tanh",
    "sigmoid",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "neg",
    "abs",
    "sin",
    "cos",
    "erf",
    "silu",
    "where",
    "clamp",
    "pow",
    "floor",
]
LEAST_SHARE = 0.2
"""A loss in more runs than this must be found."""


@dataclass
class Layer:
    """A group of the program: operators on consecutive lines."""

    name: str
    ops: list[str]
    phase: str = "forward"
    instances: int = 1
    file: str = "model.py"
    line: int = 0


@dataclass
class Run:
    """What a run is; the changes of a model write on it before its report is
    made."""

    model: int
    day: int
    machine: int
    gpu: str
    driver: str
    torch: int
    fusiondoc: str
    commit: str
    options: dict[str, Any]
    lost: dict[str, float] = field(default_factory=dict)
    """Group -> the share of its instances that is gone; 1 is all of it."""
    shrunk: set[str] = field(default_factory=set)
    merged: tuple[str, str] | None = None
    split: str | None = None
    backward: bool = True
    failed: bool = False
    shift: int = 0
    """Lines put in above everything."""
    renamed: bool = False
    rewritten: set[str] = field(default_factory=set)
    added: bool = False


@dataclass(frozen=True)
class Loss:
    """What must be found."""

    model: str
    groups: tuple[str, ...]
    day: int
    by: tuple[str, ...]
    """Any of these is a right cause."""
    share: float
    """Of the runs of the model after it, those that are without the groups: as the
    dice fell."""
    slack: int = 0
    """Days that it takes: a date in this stretch is right."""


@dataclass
class Fleet:
    """The dice, and the calendar of what all machines share."""

    dice: random.Random
    models: int
    driver_days: list[tuple[int, int]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def coming(self, early: int = 90, late: int = 270) -> int:
        return self.dice.randrange(early, late)


Change = Callable[[Run, random.Random], None]
Plan = Callable[[Fleet, str, "dict[str, Any]"], "list[Change]"]
"""What happens to a model: may write to its calendar, adds what must be found,
returns what changes its runs."""


def _lose(
    *names: str, when: Callable[[Run, random.Random], bool], part: float = 1.0
) -> Change:
    def change(run: Run, dice: random.Random) -> None:
        if when(run, dice):
            run.lost.update(dict.fromkeys(names, part))

    return change


def _by_torch(
    names: tuple[str, ...], staged: int = 0, early: int = 90, late: int = 260
) -> Plan:
    def plan(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
        day = fleet.coming(early, late)
        calendar["torch"] = [(max(2, day // 3), 0), (day, staged)]
        fleet.losses.append(Loss(model, names, day, ("torch", "cuda"), 1.0, 3))
        return [_lose(*names, when=lambda run, _: run.torch == 2)]

    return plan


def _by_driver(names: tuple[str, ...]) -> Plan:
    def plan(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
        fleet.losses.append(
            Loss(model, names, fleet.driver_days[1][0], ("driver",), 1.0, 8)
        )
        return [_lose(*names, when=lambda run, _: run.driver == DRIVERS[2])]

    return plan


def _from_day(
    names: tuple[str, ...],
    early: int = 90,
    late: int = 270,
    share: float = 1.0,
    part: float = 1.0,
    over: int = 0,
    by: tuple[str, ...] = ("commit", "lines", "date"),
    only: Callable[[Run], bool] = lambda run: True,
    of_all: float = 1.0,
) -> Plan:
    """From a day on, which is also that of a commit: in a share of the runs, in a
    share of the instances."""

    def plan(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
        day = fleet.coming(early, late)
        calendar["commits"].append(day)
        fleet.losses.append(Loss(model, names, day, by, share * of_all, over))

        def lost(run: Run, dice: random.Random) -> bool:
            rising = min(1.0, (run.day - day + 1) / over) if over else 1.0
            return run.day >= day and only(run) and dice.random() < share * rising

        return [_lose(*names, when=lost, part=part)]

    return plan


def _together(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
    """Torch and driver are upgraded on one day."""
    day = fleet.coming()
    calendar["torch"] = [(20, 0), (day, 0)]
    calendar["driver"] = [(10, 0), (day, 0)]
    fleet.losses.append(
        Loss(model, ("norm",), day, ("torch", "driver", "cuda"), 1.0, 3)
    )
    return [_lose("norm", when=lambda run, _: run.torch == 2)]


def _by_setting(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
    day = fleet.coming()
    fleet.losses.append(Loss(model, ("mlp", "norm"), day, ("settings",), 1.0, 3))

    def change(run: Run, dice: random.Random) -> None:
        if run.day >= day:
            run.options = {**run.options, "knobs": {"horizontal": "off"}}
            run.lost.update(mlp=1.0, norm=1.0)

    return [change]


def _by_fusiondoc(
    fleet: Fleet, model: str, calendar: dict[str, Any]
) -> list[Change]:
    day = calendar["fusiondoc"]
    fleet.losses.append(Loss(model, ("gate",), day, ("fusiondoc",), 1.0, 3))
    return [_lose("gate", when=lambda run, _: run.fusiondoc == FUSIONDOC[1])]


def _new_gpu(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
    day = fleet.coming(120, 240)
    fleet.losses.append(Loss(model, ("mlp",), day, ("gpu",), 0.5, 8))

    def change(run: Run, dice: random.Random) -> None:
        if run.day >= day and run.machine % 2:
            run.gpu = NEW_GPU
            run.lost["mlp"] = 1.0

    return [change]


def _shrinks(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
    day = fleet.coming()
    calendar["commits"].append(day)
    fleet.losses.append(
        Loss(model, ("mlp",), day, ("commit", "lines", "date"), 1.0)
    )

    def change(run: Run, dice: random.Random) -> None:
        if run.day >= day:
            run.shrunk.add("mlp")

    return [change]


def _added_then_lost(
    fleet: Fleet, model: str, calendar: dict[str, Any]
) -> list[Change]:
    first, day = fleet.coming(60, 110), fleet.coming(200, 280)
    calendar["commits"] += [first, day]
    fleet.losses.append(
        Loss(model, ("gate",), day, ("commit", "lines", "date"), 1.0)
    )
    return [_lose("gate", when=lambda run, _: run.day < first or run.day >= day)]


def _several(*plans: Plan) -> Plan:
    def plan(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
        return [change for one in plans for change in one(fleet, model, calendar)]

    return plan


def _harmless(
    change: Callable[[Run, random.Random, int], None],
    early: int = 90,
    late: int = 270,
    commit: bool = True,
) -> Plan:
    """A change from a day on, of which nothing is lost."""

    def plan(fleet: Fleet, model: str, calendar: dict[str, Any]) -> list[Change]:
        day = fleet.coming(early, late)
        if commit:
            calendar["commits"].append(day)
        return [lambda run, dice: change(run, dice, day)]

    return plan


def _set(**values: Any) -> Callable[[Run, random.Random, int], None]:
    def change(run: Run, dice: random.Random, day: int) -> None:
        if run.day >= day:
            for name, value in values.items():
                setattr(run, name, value)

    return change


def _lost_for_a_while(run: Run, dice: random.Random, day: int) -> None:
    if day <= run.day < day + 30:
        run.lost["norm"] = 1.0


def _of_one_gpu_alone(run: Run, dice: random.Random, day: int) -> None:
    if run.gpu != GPUS[1]:
        run.lost["norm"] = 1.0


def _mix_shifts(run: Run, dice: random.Random, day: int) -> None:
    """More and more of the runs are on a GPU that never had the group."""
    run.gpu = GPUS[2] if dice.random() < 0.15 + 0.6 * run.day / DAYS else GPUS[0]
    if run.gpu == GPUS[2]:
        run.lost["norm"] = 1.0


def _flaky(run: Run, dice: random.Random, day: int) -> None:
    if dice.random() < 0.3:
        run.lost["norm"] = 1.0


def _chance(name: str, share: float) -> Callable[[Run, random.Random, int], None]:
    def change(run: Run, dice: random.Random, day: int) -> None:
        if dice.random() < share:
            setattr(run, name, not getattr(run, name))

    return change


def _one_run(run: Run, dice: random.Random, day: int) -> None:
    if run.day == DAYS - 1 or dice.random() < 0.01:
        run.lost[dice.choice(["norm", "mlp"])] = 1.0


def _clock_skew(run: Run, dice: random.Random, day: int) -> None:
    if run.machine == 3:
        run.day = max(0, run.day - 2)


def _retired(run: Run, dice: random.Random, day: int) -> None:
    run.day = run.day * 200 // DAYS


def _new(run: Run, dice: random.Random, day: int) -> None:
    run.day = 300 + run.day * 60 // DAYS


def _a_quarter_has_other_lines(run: Run, dice: random.Random, day: int) -> None:
    """Branches: machines build other commits."""
    run.shift = 40 if run.machine % 4 == 0 else 0


LOSSES: tuple[tuple[str, Plan], ...] = (
    ("torch, at once, two groups", _by_torch(("norm", "gate"))),
    ("torch, early in the history", _by_torch(("mlp",), early=30, late=40)),
    ("torch, late in the history", _by_torch(("mlp",), early=325, late=335)),
    (
        "torch, machine by machine over six weeks",
        _by_torch(("mlp", "norm"), staged=42),
    ),
    ("torch, a backward group", _by_torch(("grad_mlp",))),
    ("torch and driver on one day", _together),
    ("driver, machine by machine", _by_driver(("norm",))),
    ("driver, three groups", _by_driver(("norm", "mlp", "grad_norm"))),
    ("commit, one group", _from_day(("gate",))),
    ("commit, three groups", _from_day(("gate", "mlp", "grad_gate"))),
    ("commit, early in the history", _from_day(("gate",), early=14, late=20)),
    ("commit, late in the history", _from_day(("gate",), early=335, late=345)),
    ("rising over six weeks, nothing recorded", _from_day(("mlp",), over=42)),
    ("in 90 % of the runs", _from_day(("mlp",), share=0.9)),
    ("in 50 % of the runs", _from_day(("mlp",), share=0.5)),
    ("in 25 % of the runs", _from_day(("mlp",), early=120, late=220, share=0.25)),
    (
        "on one GPU alone",
        _from_day(
            ("mlp",),
            by=("commit", "lines", "date", "gpu"),
            only=lambda run: run.gpu == GPUS[1],
            of_all=1 / 3,
        ),
    ),
    ("a new GPU", _new_gpu),
    ("one of four instances", _from_day(("block",), part=0.25)),
    ("half of the instances", _from_day(("block",), part=0.5)),
    ("few runs, torch", _by_torch(("norm",), early=150, late=200)),
    ("few runs, commit", _from_day(("norm",), early=150, late=200)),
    ("a setting", _by_setting),
    ("fusiondoc", _by_fusiondoc),
    ("half of its operators", _shrinks),
    ("added, later lost", _added_then_lost),
    (
        "two losses of one model",
        _several(
            _by_torch(("norm",), early=80, late=120),
            _from_day(("gate",), early=220, late=280),
        ),
    ),
)
HARMLESS: tuple[tuple[str, Plan], ...] = (
    ("lines move in the middle of a release", _harmless(_set(shift=17))),
    ("lines move far", _harmless(_set(shift=400))),
    ("a file is renamed", _harmless(_set(renamed=True))),
    ("two groups become one", _harmless(_set(merged=("norm", "mlp")))),
    ("a group is split into two with its operators", _harmless(_set(split="mlp"))),
    ("an equal layer is added", _harmless(_set(added=True))),
    ("an operator is written otherwise", _harmless(_set(rewritten={"mlp"}))),
    ("a group is missing for a month", _harmless(_lost_for_a_while, late=240)),
    ("a group that one GPU alone ever had", _harmless(_of_one_gpu_alone)),
    ("more and more runs on a GPU that never had a group", _harmless(_mix_shifts)),
    ("a group that 30 % of the runs never have", _harmless(_flaky)),
    ("runs without backward", _harmless(_chance("backward", 0.3), commit=False)),
    ("the last run and one in a hundred lack a group", _harmless(_one_run)),
    ("failed runs", _harmless(_chance("failed", 0.15), commit=False)),
    ("a clock that is two days late", _harmless(_clock_skew)),
    ("a model is retired", _harmless(_retired)),
    ("a new model", _harmless(_new)),
    ("branches with other lines", _harmless(_a_quarter_has_other_lines)),
    ("torch is upgraded, nothing is lost", _harmless(_set())),
    ("few runs, nothing is lost", _harmless(_set(shift=5))),
    ("few runs, one lacks a group", _harmless(_one_run)),
    ("kernels and groups have other names", _harmless(_set())),
)
FEW = ("few runs",)
"""Begin of the names of models with twelve runs."""


def layers_of(dice: random.Random) -> list[Layer]:
    """Groups of a program: each has operators that no other one has in that
    order."""
    names = ["norm", "mlp", "gate", "block", "head"]
    found = [
        Layer(name, dice.sample(OPERATORS, dice.randrange(4, 8))) for name in names
    ]
    found[3].instances = 4
    found += [
        Layer(
            f"grad_{one.name}", [*one.ops[::-1], f"{one.name}_backward"], "backward"
        )
        for one in found[:3]
    ]
    return found


class Commits:
    """The lines of a program by day: each commit puts some in or takes some out."""

    def __init__(
        self, days: list[int], dice: random.Random, layers: list[Layer]
    ) -> None:
        self.days = sorted({0, *days})
        self._starts: list[list[int]] = []
        starts = [20 + 30 * index for index in range(len(layers))]
        for _ in self.days:
            at, more = dice.randrange(len(starts)), dice.choice((0, 0, 1, 2, 5, -1))
            starts = [
                one + more if index >= at else one
                for index, one in enumerate(starts)
            ]
            self._starts.append(starts)
        self.names = [f"{dice.getrandbits(40):010x}" for _ in self.days]

    def at(self, day: int) -> tuple[str, list[int]]:
        nth = max(
            index
            for index, first in enumerate(self.days)
            if first <= day or not index
        )
        return self.names[nth], self._starts[nth]


def _nodes(run: Run, layer: Layer, start: int) -> list[dict[str, Any]]:
    file = f"/srv/node{run.machine}/project/" + (
        "network.py" if run.renamed else "model.py"
    )
    nodes = []
    for index, op in enumerate(layer.ops):
        if layer.name in run.rewritten and index == 1:
            op = "hardswish"
        if layer.phase == "backward":
            nodes.append(
                {
                    "op": f"aten::{op}",
                    "source": f"<string>:{30 + index}:8",
                    "user_source": None,
                }
            )
            continue
        place = f"{file}:{start + run.shift + index}"
        nodes.append(
            {"op": f"aten::{op}", "source": f"{place}:12", "user_source": place}
        )
    return nodes


def _group(
    number: int, phase: str, nodes: list[dict[str, Any]], count: int, name: str
) -> dict[str, Any]:
    return {
        "id": f"G{number}",
        "kind": "CudaFusionGroup",
        "name": name,
        "phase": phase,
        "specialisation": 1,
        "fallback": False,
        "nodes": nodes,
        "instances": [{"layer": None, "kernels": [], "runs": 3}] * count,
        "kernels": [f"K{number}"],
    }


def _outside(
    node: dict[str, Any], phase: str, count: int, code: str = "FD230"
) -> dict[str, Any]:
    reason = {
        "code": code,
        "text": "the fuser does not take it here",
        "stated": False,
    }
    return {
        **node,
        "phase": phase,
        "count": count,
        "ran": True,
        "reason": reason,
        "bytes_moved": 4096,
    }


def report_of(
    run: Run, layers: list[Layer], starts: list[int], dice: random.Random
) -> dict[str, Any]:
    """As ``diagnose --output`` writes it, with the parts that a survey reads."""
    groups: list[tuple[Layer, list[dict[str, Any]], int]] = []
    unfused: list[dict[str, Any]] = []
    for index, (layer, start) in enumerate(zip(layers, starts)):
        if layer.phase == "backward" and not run.backward:
            continue
        if run.failed and index:  # it ended before more was compiled
            continue
        nodes = _nodes(run, layer, start)
        count = layer.instances + (run.added and layer.name == "block")
        gone = round(layer.instances * run.lost.get(layer.name, 0.0))
        kept = nodes
        if layer.name in run.shrunk:
            kept = nodes[: len(nodes) // 2]
            unfused += [
                _outside(node, layer.phase, count) for node in nodes[len(kept) :]
            ]
        if gone:
            unfused += [_outside(node, layer.phase, gone) for node in nodes]
        if count > gone:
            parts = [kept]
            if run.split == layer.name:
                parts = [kept[:2], kept[2:]]
            groups += [(layer, part, count - gone) for part in parts]
    if run.merged is not None and not run.failed:
        first, second = (
            [one for one in groups if one[0].name == name] for name in run.merged
        )
        if first and second:
            groups = [one for one in groups if one[0].name not in run.merged]
            extra = {
                "op": "aten::lerp",
                "source": first[0][1][0]["source"],
                "user_source": None,
            }
            groups.append((first[0][0], [*first[0][1], *second[0][1], extra], 1))
    view = {
        "op": "aten::linear",
        "source": f"/srv/node{run.machine}/project/model.py:{5}:4",
        "user_source": None,
    }
    unfused.append(_outside(view, "forward", 2, "FD225"))
    dice.shuffle(groups)
    made = [
        _group(
            number,
            layer.phase,
            nodes,
            count,
            f"prim::CudaFusionGroup_{dice.randrange(100)}",
        )
        for number, (layer, nodes, count) in enumerate(groups, 1)
    ]
    torch, cuda = TORCH[run.torch]
    day = FIRST_DAY + datetime.timedelta(run.day)
    moment = f"{day:%Y%m%d}-{dice.randrange(24):02}{dice.randrange(60):02}{dice.randrange(60):02}"
    failure = {"code": "FD905", "severity": "error"}
    return {
        "schema": "fusiondoc.report/1",
        "target": {
            "name": f"/srv/node{run.machine}/project/model{run.model:02}.py",
            "model": f"project/model{run.model:02}.py",
            "options": {
                "fuser": "auto",
                "runs": 5,
                "backward": run.backward,
                **run.options,
            },
            "capture": f".fusiondoc/{moment}-model{run.model:02}",
        },
        "environment": {
            "torch": torch,
            "cuda": cuda,
            "gpu": run.gpu,
            "driver": run.driver,
            "fusiondoc": run.fusiondoc,
            "commit": run.commit,
        },
        "fuser": {"requested": "auto", "effective": "nvfuser", "live": True},
        "coverage": {"fraction": 0.9},
        "groups": made,
        "unfused": unfused,
        "fallbacks": [],
        "kernels": [
            {
                "id": one["kernels"][0],
                "name": f"kernel{dice.randrange(100)}",
                "ms": {"median": 0.05},
            }
            for one in made
        ],
        "findings": [failure] if run.failed else [],
    }


def _stage(day: int, days: list[tuple[int, int]], machine: int) -> int:
    """How many upgrades a machine has had: each begins on a day and takes some
    days, machine by machine."""
    return sum(day >= first + over * machine // 11 for first, over in days)


def make(
    folder: Path,
    runs: int,
    models: int,
    seed: int,
    names: tuple[str, ...] | None = None,
) -> list[Loss]:
    """Writes the fleet, and says what must be found. ``names``: only these of the
    plans."""
    dice = random.Random(seed)
    fleet = Fleet(dice, models)
    start = dice.randrange(120, 200)
    fleet.driver_days = [(dice.randrange(20, 40), 30), (start, 40)]
    wanted = [
        one for one in (*LOSSES, *HARMLESS) if names is None or one[0] in names
    ]
    few = sum(name.startswith(FEW) for name, _ in wanted[:models])
    each = (runs - 12 * few) // (models - few)
    number = 0
    shares: dict[int, list[bool]] = {}
    for model in range(models):
        name, plan = (
            wanted[model] if model < len(wanted) else ("", _harmless(_set()))
        )
        own = random.Random(f"{seed}/{model}")
        layers = layers_of(own)
        calendar: dict[str, Any] = {
            "torch": [
                (own.randrange(25, 80), own.choice((0, 30))),
                (own.randrange(200, 330), 30),
            ],
            "driver": fleet.driver_days,
            "fusiondoc": own.randrange(100, 260),
            "commits": list(range(own.randrange(3, 10), DAYS, 7)),
        }
        changes = plan(fleet, f"model{model:02}.py", calendar)
        commits = Commits(calendar["commits"], own, layers)
        count = 12 if name.startswith(FEW) else each
        for nth in range(count):
            day = nth * DAYS // count if count == 12 else own.randrange(DAYS)
            machine = own.randrange(12)
            commit, starts = commits.at(day)
            run = Run(
                model,
                day,
                machine,
                GPUS[machine % 3],
                DRIVERS[_stage(day, calendar["driver"], machine)],
                _stage(day, calendar["torch"], machine),
                FUSIONDOC[day >= calendar["fusiondoc"]],
                commit,
                {},
            )
            for change in changes:
                change(run, own)
            if (
                own.random() < 0.01
            ):  # noise: a run fails, or one group is missing in it
                run.failed = True
            elif own.random() < 0.01:
                run.lost[own.choice(layers).name] = 1.0
            for index, loss in enumerate(fleet.losses):
                if (
                    loss.model == f"model{model:02}.py"
                    and run.day >= loss.day + loss.slack
                ):
                    lacking = (
                        loss.groups[0] in run.lost or loss.groups[0] in run.shrunk
                    )
                    shares.setdefault(index, []).append(lacking)
            text = json.dumps(report_of(run, layers, starts, own))
            place = folder / f"node{machine}" / f"run-{number:06}.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            if number % 97 == 5:
                (place.parent / f"copy-{number:06}.json").write_text(text, "utf-8")
            number += 1
    return [
        replace(loss, share=sum(shares[index]) / len(shares[index]))
        if index in shares
        else loss
        for index, loss in enumerate(fleet.losses)
    ]


@dataclass
class Score:
    """What the rows of a survey are worth."""

    rows: int
    right: int
    twice: int
    false: int
    missed: list[Loss]
    wrong_cause: list[str]
    days_off: list[int]
    within: int
    """Losses whose day is in the interval of their row."""
    false_rows: list[str]

    @property
    def precision(self) -> float:
        return self.right / self.rows if self.rows else 1.0


def score(
    found: dict[str, Any], losses: list[Loss], seed: int, models: int
) -> Score:
    """Rows held against what is known. A second row of a loss is wrong, as is one
    of another cause."""
    by_model = {}
    for model in range(models):
        layers = layers_of(random.Random(f"{seed}/{model}"))
        by_model[f"model{model:02}.py"] = {
            one.name: set(one.ops) | {one.ops[0]} for one in layers
        }
    ops_of = {
        one["id"]: tuple(op.rpartition("::")[2] for op in one["ops"])
        for one in found["groups"]
    }
    left = list(losses)
    result = Score(len(found["gone"]), 0, 0, 0, [], [], [], 0, [])
    for row in found["gone"]:
        ids = row.get("groups") or [row["group"]]
        model = str(row["model"]).rpartition("/")[2]
        names = {_name_of(ops_of[one], seed, model) for one in ids}
        fitting = [
            one for one in losses if one.model == model and names & set(one.groups)
        ]
        told = json.dumps(
            {
                key: row.get(key)
                for key in ("model", "by", "date", "last", "since", "share_before")
            }
        )
        if not fitting:
            result.false += 1
            result.false_rows.append(f"{told} {sorted(names)}")
            continue
        day = _day(row)
        loss = min(
            fitting, key=lambda one: (one not in left, abs((day or 0) - one.day))
        )
        if loss not in left:
            result.twice += 1
            result.false_rows.append(f"again: {told} {sorted(names)}")
            continue
        left.remove(loss)
        result.right += 1
        # A program that runs tell by its lines alone is named as "program of" a
        # day.
        causes = {
            row["by"],
            *(one.partition(" ")[0].lower() for one in row.get("together", ())),
        }
        if "program" in causes:
            causes.add("lines")
        if not causes & set(loss.by) or not set(loss.groups) <= names:
            result.wrong_cause.append(f"{told} {sorted(names)}, is {loss}")
        if day is not None:
            first, last = (
                _number(row.get(name)) for name in ("date_from", "date_to")
            )
            if first is not None and last is not None:
                result.within += (
                    first - 1 <= loss.day <= last
                    or 0 <= first - loss.day <= loss.slack
                )
            off = day - loss.day
            result.days_off.append(max(0, off - loss.slack) if off > 0 else off)
    result.missed = [one for one in left if one.share > LEAST_SHARE]
    return result


def _name_of(ops: tuple[str, ...], seed: int, model: str) -> str:
    """The layer of a group, by its operators: also of parts and of those with
    others."""
    layers = layers_of(random.Random(f"{seed}/{int(model[5:7])}"))
    best = max(
        layers,
        key=lambda one: (
            2 * len(set(one.ops) & set(ops)) - len(set(one.ops) | set(ops))
        ),
    )
    return best.name


def _day(row: dict[str, Any]) -> int | None:
    text = row.get("date") or (row["since"] if row["by"] == "date" else None)
    return _number(text)


def _number(text: str | None) -> int | None:
    return (
        (datetime.date.fromisoformat(text[:10]) - FIRST_DAY).days
        if text is not None
        else None
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument(
        "--rows",
        action="store_true",
        help="print the rows that are wrong, and what is missed",
    )
    parser.add_argument(
        "--text", action="store_true", help="print what the command line shows"
    )
    asked = parser.parse_args()
    for seed in asked.seed or [1, 2, 3]:
        with tempfile.TemporaryDirectory(prefix="survey-losses-") as name:
            folder = Path(name)
            losses = make(folder, asked.runs, asked.models, seed)
            command = [sys.executable, "-m", "fusiondoc", "survey", name]
            began = time.perf_counter()
            done = subprocess.run(
                [*command, "--format", "json"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            took = time.perf_counter() - began
            if asked.text:
                print(
                    subprocess.run(
                        command,
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout
                )
        found = json.loads(done.stdout)
        made = score(found, losses, seed, asked.models)
        off = sorted(map(abs, made.days_off))
        dates = (
            f"{off[len(off) // 2]} days in the median, {off[-1]} at most"
            if off
            else "no dates"
        )
        large = [one for one in losses if one.share > LEAST_SHARE]
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(
            f"seed {seed}: {len(found['runs']):,} runs, {len(losses)} losses, {made.rows} rows:"
            f" {made.right} right,"
            f" {made.twice} again, {made.false} false (precision {made.precision:.0%});"
            f" {len(made.missed)} missed"
            f" (recall {1 - len(made.missed) / len(large):.0%}); wrong cause or groups"
            f" {len(made.wrong_cause)};"
            f" dates off by {dates}, {made.within} of {len(off)} in their interval; {took:.1f} s, {peak} MB",
            flush=True,
        )
        if asked.rows:
            print("  days off", made.days_off)
            for one in made.false_rows:
                print("  false ", one)
            for one in made.missed:
                print("  missed", one)
            for one in made.wrong_cause:
                print("  cause ", one)


if __name__ == "__main__":
    main()
