"""The records of the probe on the processes of a run: of a program that ran as it
is (probe/program_watch.py, script_run.py), and of several ranks how each ended, and
whether by itself (probe/rank_process.py). One frozen dataclass a kind of record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar

from fusiondoc.captures.frontend_records import (
    AotRecords,
    GraphBreaks,
    GraphLines,
    PartitionDone,
    Scripted,
    SiteFailed,
    SiteFound,
    SiteUsed,
    TracedGraph,
    read_aot,
)
from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.aot import FusedModules

_T = TypeVar("_T", TracedGraph, PartitionDone, Scripted, SiteFailed)

SCRIPT = "script"
"""Kind of target of a program that runs as a script."""
_FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*:)?[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclass(frozen=True)
class ScriptedModel:
    """A model that the program scripted, traced or loaded; equal ones are counted
    as one."""

    name: str
    how: str = "scripted"
    at: str | None = None
    count: int = 1
    planned: bool | None = None


@dataclass(frozen=True)
class RanInstead:
    """Torch.compile's own counters at the end of the run."""

    frames: int = 0
    graphs: int = 0
    kernels: int = 0
    """Number of kernels that its default backend generated."""


@dataclass(frozen=True)
class StepsTaken:
    """Steps of the program. ``by`` is "AdamW.step" or the function's name; ``ms``:
    intervals from one to the next."""

    by: str | None = None
    count: int = 0
    ms: tuple[float, ...] = ()
    left_out: int = 0
    """Number of intervals before those in ``ms``."""
    why_not: str | None = None
    memory_bytes: int | None = None
    """Peak of the device memory of the whole run."""


@dataclass(frozen=True)
class ScriptRecords:
    """All records of the program."""

    models: tuple[ScriptedModel, ...] = ()
    instead: RanInstead | None = None
    """None: not recorded."""
    steps: StepsTaken | None = None


def read_script(records: RawRecords) -> ScriptRecords:
    """Return the records of a program that ran as a script."""
    instead = records.read_all("ran_instead", RanInstead)
    steps = records.read_all("script_steps", StepsTaken)
    models: dict[tuple[str, str, str | None], ScriptedModel] = {}
    for model in records.read_all(
        "scripted_model", ScriptedModel
    ):  # each process of a program writes its own
        key = (model.name, model.how, model.at)
        known = models.setdefault(key, model)
        if model.planned and not known.planned:
            models[key] = model
    return ScriptRecords(
        models=tuple(models.values()),
        instead=_most(instead) if instead else None,
        # Ranks take the same number of steps. The run's own process writes last,
        # and gives the reason if there are none at all.
        steps=max(reversed(steps), key=lambda taken: taken.count)
        if steps
        else None,
    )


def _most(processes: Sequence[RanInstead]) -> RanInstead:
    """The counts of torch.compile in all processes of a program; ranks compile the
    same."""
    return RanInstead(
        frames=max(process.frames for process in processes),
        graphs=max(process.graphs for process in processes),
        kernels=max(process.kernels for process in processes),
    )


def read_aot_of_processes(records: RawRecords) -> AotRecords:
    """The records of AOTAutograd. Each process of a program numbers its call sites
    from 0; equal ones are joined here."""
    processes = []
    for number in records.processes(_KINDS):
        processes.append(read_aot(records.of_process(number)))
    if len(processes) == 1:
        return processes[0]
    joined = _JoinedProcesses()
    for process in processes:
        joined.add(process)
    return joined.records()


_KINDS = (
    *(
        "aot_site",
        "aot_graph",
        "aot_partition",
        "aot_scripted",
        "aot_used",
        "aot_failed",
    ),
    *("graph_lines", "aot_breaks", "fused_module"),
)


class _JoinedProcesses:
    """The records of several processes, with one number for equal call sites; the
    graphs of a call site are those of the first process that compiled it."""

    def __init__(self) -> None:
        self._sites: dict[tuple[object, ...], SiteFound] = {}
        self._graphs: list[TracedGraph] = []
        self._partitions: list[PartitionDone] = []
        self._scripted: list[Scripted] = []
        self._used: dict[int, SiteUsed] = {}
        self._failed: list[SiteFailed] = []
        self._plain: list[GraphLines] = []
        self._breaks: list[GraphBreaks] = []
        self._modules: dict[str, FusedModules] = {}

    def add(self, process: AotRecords) -> None:
        numbers = self._numbers(process)
        for used in process.used:
            if used.site in numbers:
                renumbered = replace(used, site=numbers[used.site])
                known = self._used.get(renumbered.site)
                self._used[renumbered.site] = _more_of(known, renumbered)
        compiled = {graph.site for graph in self._graphs}
        self._graphs += _renumbered(process.graphs, numbers, compiled)
        self._partitions += _renumbered(process.partitions, numbers, compiled)
        self._failed += _renumbered(process.failed, numbers)
        for code in _renumbered(process.scripted, numbers):
            if code not in self._scripted:
                self._scripted.append(code)
        for lines in process.plain:
            if lines not in self._plain:
                self._plain.append(lines)
        self._breaks.append(process.breaks)
        for module in process.modules:
            self._add_module(module)

    def _numbers(self, process: AotRecords) -> dict[int, int]:
        """Number of a call site in the process -> its number over all processes."""
        numbers = {}
        for site in process.sites:
            unknown = (len(self._sites), id(process))
            key = (site.name, site.how, site.at) if site.at else unknown
            known = self._sites.setdefault(
                key, replace(site, site=len(self._sites))
            )
            numbers[site.site] = known.site
        return numbers

    def _add_module(self, module: FusedModules) -> None:
        known = self._modules.get(module.kind)
        if known is None:
            self._modules[module.kind] = module
        else:
            self._modules[module.kind] = known.joined(module)

    def records(self) -> AotRecords:
        files = Counter(code.file for code in self._scripted)
        files.update(lines.file for lines in self._plain)
        most_breaks = GraphBreaks()
        if self._breaks:
            most_breaks = max(
                self._breaks,
                key=lambda breaks: (breaks.graphs, len(breaks.reasons)),
            )
        return AotRecords(
            sites=tuple(self._sites.values()),
            graphs=tuple(self._graphs),
            partitions=tuple(self._partitions),
            # A name used for two codes in two processes is ambiguous: they write to
            # one log.
            scripted=tuple(
                code for code in self._scripted if files[code.file] == 1
            ),
            used=tuple(self._used.values()),
            failed=tuple(self._failed),
            breaks=most_breaks,
            plain=tuple(lines for lines in self._plain if files[lines.file] == 1),
            modules=tuple(self._modules.values()),
        )


def _renumbered(
    records: Iterable[_T],
    numbers: Mapping[int, int],
    without: AbstractSet[int] = frozenset(),
) -> list[_T]:
    """Return the records with new numbers of their call sites; those of unknown
    sites and of ``without`` are removed."""
    moved = []
    for record in records:
        number = numbers.get(record.site)
        if number is not None and number not in without:
            moved.append(replace(record, site=number))
    return moved


def _more_of(known: SiteUsed | None, other: SiteUsed) -> SiteUsed:
    """Return the record of the process that used the call site most, and the number
    of processes that used it."""
    if known is None or not known.is_used:
        return other
    if not other.is_used:
        return known
    most = max((known, other), key=lambda used: (used.compiles, used.calls or 0))
    return replace(most, processes=known.processes + 1)


def layers_of_models(
    records: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """For each record ``source_map``: ``op|source`` -> the module path of each such
    node. In a program with several models the paths begin with the model's name."""
    several = len({record.get("model") for record in records}) > 1
    found = []
    for record in records:
        paths_of_nodes, name = record.get("layers"), record.get("model")
        above = str(name).replace(".", "_") if several and name is not None else ""
        layers: dict[str, tuple[str, ...]] = {}
        for key, paths in (
            paths_of_nodes.items() if isinstance(paths_of_nodes, dict) else ()
        ):
            if isinstance(paths, list) and all(
                isinstance(path, str) for path in paths
            ):
                layers[key] = tuple(
                    ".".join(filter(None, (above, path))) for path in paths
                )
        if layers:
            found.append(layers)
    return tuple(found)


def check_step_function(name: str | None) -> None:
    """Raise UsageError for a text that cannot be the name of a function."""
    if name is not None and not _FUNCTION.match(name):
        raise UsageError(
            f"--step-function {name}: not the name of a function",
            "For example: train_step, Trainer.training_step or package.module:train_step.",
        )


RANKS = "ranks"
"""The folder of a capture with a capture for each rank."""


@dataclass(frozen=True)
class RankProcess:
    """A rank, as recorded by its own process."""

    rank: int
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    restarts: int = 0
    """Number of restarts by the launcher."""
    asked: str | None = None
    """The signal with which the launcher (or fusiondoc) tried to end it, such as
    SIGTERM."""
    ended_at: float | None = None
    """Seconds since 1970."""


def read_rank(records: RawRecords) -> RankProcess | None:
    """The record of a rank."""
    return records.read_merged("rank", RankProcess)
