"""The records of the probe on the processes of a run: of a program that ran as it is (probe/program_watch.py,
script_run.py), and of several ranks how each ended, and whether by itself (probe/rank_process.py).
One frozen dataclass a kind of record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar

from fusiondoc.captures.frontend_records import (
    AotRecords,
    FusedModuleUsed,
    GraphLines,
    PartitionDone,
    Scripted,
    SiteFailed,
    SiteFound,
    SiteUsed,
    TracedGraph,
    read_aot,
)
from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.typed_fields import read_object

_T = TypeVar("_T", TracedGraph, PartitionDone, Scripted, SiteFailed)

SCRIPT = "script"
"""Kind of target of a program that runs as it is."""
_FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*:)?[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclass(frozen=True)
class ScriptedModel:
    """A model that the program scripted, traced or loaded; equal ones are one."""

    name: str
    how: str = "scripted"
    at: str | None = None
    count: int = 1
    planned: bool | None = None


@dataclass(frozen=True)
class RanInstead:
    """What torch.compile did by the end of the run, by its own counters."""

    frames: int = 0
    graphs: int = 0
    kernels: int = 0
    """Kernels that inductor generated."""
    inductor: bool = False


@dataclass(frozen=True)
class StepsTaken:
    """Steps of the program. ``by`` is "AdamW.step" or the function's name; ``ms`` from one to the next."""

    by: str | None = None
    count: int = 0
    ms: tuple[float, ...] = ()
    left_out: int = 0
    """Intervals before those in ``ms``."""
    why_not: str | None = None
    memory_bytes: int | None = None
    """Peak of the device memory of the whole run."""


@dataclass(frozen=True)
class ScriptRecords:
    """All records of the program."""

    models: tuple[ScriptedModel, ...] = ()
    instead: RanInstead | None = None
    """None: nobody looked."""
    steps: StepsTaken | None = None


def read_script(all_of: Callable[[str], Sequence[Mapping[str, Any]]]) -> ScriptRecords:
    """The records of a program among all, which ``all_of`` has by kind."""

    def read(kind: str, of: type[Any]) -> tuple[Any, ...]:
        made = (read_object(of, one) for one in all_of(kind))
        return tuple(one for one in made if one is not None)

    instead, steps = read("ran_instead", RanInstead), read("script_steps", StepsTaken)
    models: dict[tuple[str, str, str | None], ScriptedModel] = {}
    for one in read("scripted_model", ScriptedModel):  # each process of a program writes its own
        known = models.setdefault((one.name, one.how, one.at), one)
        if one.planned and not known.planned:
            models[(one.name, one.how, one.at)] = one
    return ScriptRecords(
        models=tuple(models.values()),
        instead=_most(instead) if instead else None,
        # Ranks take equal steps. The run's own process writes last, and states why there are none at all.
        steps=max(reversed(steps), key=lambda one: one.count) if steps else None,
    )


def _most(records_of_one: Sequence[RanInstead]) -> RanInstead:
    """What the processes of a program compiled; ranks compile the same."""
    return RanInstead(
        frames=max(one.frames for one in records_of_one),
        graphs=max(one.graphs for one in records_of_one),
        kernels=max(one.kernels for one in records_of_one),
        inductor=any(one.inductor for one in records_of_one),
    )


def read_aot_of_processes(all_of: Callable[[str], Sequence[Mapping[str, Any]]]) -> AotRecords:
    """The records of AOTAutograd among all, which ``all_of`` has by kind. Each process of a program numbers
    its call sites from 0; equal ones are joined here."""
    numbers = dict.fromkeys(one.get("process") for kind in _KINDS for one in all_of(kind))
    processes = sorted(numbers, key=lambda number: number is not None)  # the run's own first
    return _together([_of_process(all_of, number) for number in processes])


_KINDS = (
    *("aot_site", "aot_graph", "aot_partition", "aot_scripted", "aot_used", "aot_failed"),
    *("graph_lines", "aot_breaks", "fused_module"),
)


def _of_process(all_of: Callable[[str], Sequence[Mapping[str, Any]]], process: object) -> AotRecords:
    return read_aot(lambda kind: [one for one in all_of(kind) if one.get("process") == process])


def _together(processes: Sequence[AotRecords]) -> AotRecords:
    """The records of all processes: of a call site the graphs of the first process that compiled it."""
    if len(processes) < 2:
        return processes[0] if processes else AotRecords()
    sites: dict[tuple[object, ...], SiteFound] = {}
    graphs: list[TracedGraph] = []
    partitions: list[PartitionDone] = []
    scripted: list[Scripted] = []
    used: dict[int, SiteUsed] = {}
    failed: list[SiteFailed] = []
    plain: list[GraphLines] = []
    for process in processes:
        number: dict[int, int] = {}
        for site in process.sites:
            key = (site.name, site.how, site.at) if site.at else (len(sites), id(process))
            known = sites.setdefault(key, replace(site, site=len(sites)))
            number[site.site] = known.site
        have = {one.site for one in graphs}
        for one in process.used:
            if one.site in number:
                records_of_one = replace(one, site=number[one.site])
                used[records_of_one.site] = _more_of(used.get(records_of_one.site), records_of_one)

        def moved(records: Iterable[_T], without: AbstractSet[int] = frozenset()) -> list[_T]:
            kept = (one for one in records if number.get(one.site, -1) not in {*without, -1})  # noqa: B023
            return [replace(one, site=number[one.site]) for one in kept]  # noqa: B023

        graphs += moved(process.graphs, have)
        partitions += moved(process.partitions, have)
        failed += moved(process.failed)
        scripted += [one for one in moved(process.scripted) if one not in scripted]
        plain += [one for one in process.plain if one not in plain]
    files = Counter(file for file in [*(one.file for one in scripted), *(one.file for one in plain)])
    return AotRecords(
        sites=tuple(sites.values()),
        graphs=tuple(graphs),
        partitions=tuple(partitions),
        # A name that is of two codes in two processes has no meaning: they write one log.
        scripted=tuple(one for one in scripted if files[one.file] == 1),
        used=tuple(used.values()),
        failed=tuple(failed),
        breaks=max((one.breaks for one in processes), key=lambda one: (one.graphs, len(one.reasons))),
        plain=tuple(one for one in plain if files[one.file] == 1),
        modules=_modules_of(processes),
    )


def _more_of(known: SiteUsed | None, other: SiteUsed) -> SiteUsed:
    """The record of the process that used the call site most, and how many processes used it."""
    if known is None or not known.is_used:
        return other
    if not other.is_used:
        return known
    most = max((known, other), key=lambda one: (one.compiles, one.calls or 0))
    return replace(most, processes=known.processes + 1)


def _modules_of(processes: Sequence[AotRecords]) -> tuple[FusedModuleUsed, ...]:
    """Calls of all processes together."""
    found: dict[str, FusedModuleUsed] = {}
    for one in (module for process in processes for module in process.modules):
        known = found.get(one.kind, FusedModuleUsed(one.kind))
        found[one.kind] = FusedModuleUsed(
            one.kind,
            known.calls + one.calls,
            known.fused + one.fused,
            known.wraps + one.wraps,
            tuple(dict.fromkeys(known.layers + one.layers)),
            tuple(dict.fromkeys(known.eager + one.eager)),
        )
    return tuple(found.values())


def layers_of_models(records: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """Of each record ``source_map``: ``op|source`` -> the module path of each such node. In a program with
    several models the paths begin with the model's name."""
    several = len({record.get("model") for record in records}) > 1
    found = []
    for record in records:
        records_of_one, name = record.get("layers"), record.get("model")
        above = str(name).replace(".", "_") if several and name is not None else ""
        layers: dict[str, tuple[str, ...]] = {}
        for key, paths in records_of_one.items() if isinstance(records_of_one, dict) else ():
            if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
                layers[key] = tuple(".".join(filter(None, (above, path))) for path in paths)
        if layers:
            found.append(layers)
    return tuple(found)


def check_step_function(name: str | None) -> None:
    """Refuse what can be no function's name (UsageError)."""
    if name is not None and not _FUNCTION.match(name):
        raise UsageError(
            f"--step-function {name}: not the name of a function",
            "Such as train_step, Trainer.training_step or package.module:train_step.",
        )


RANKS = "ranks"
"""The folder of a capture with a capture for each rank."""


@dataclass(frozen=True)
class RankProcess:
    """A rank, as its own process records it."""

    rank: int
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    restarts: int = 0
    """How often the launcher had started it again."""
    asked: str | None = None
    """The signal by which the launcher (or fusiondoc) asked it to end, such as SIGTERM."""
    ended_at: float | None = None
    """Seconds since 1970."""


def read_rank(all_of: Callable[[str], Sequence[Mapping[str, Any]]]) -> RankProcess | None:
    """The record of a rank among all, which ``all_of`` has by kind."""
    found: dict[str, Any] = {}
    for one in all_of("rank"):
        found.update({name: value for name, value in one.items() if value is not None})
    return read_object(RankProcess, found) if found else None
