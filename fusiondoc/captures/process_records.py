"""What the probe tells of the processes of a run: of a program that ran as it is (probe/program_watch.py,
script_steps.py), and of several ranks how each ended, where it was then, and whether by itself
(probe/rank_process.py). One frozen dataclass a kind of record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.errors import UsageError
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.typed_fields import read_object

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
    """All that is told of the program."""

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
    for one in read("scripted_model", ScriptedModel):  # each process of a program tells its own
        known = models.setdefault((one.name, one.how, one.at), one)
        if one.planned and not known.planned:
            models[(one.name, one.how, one.at)] = one
    return ScriptRecords(
        models=tuple(models.values()),
        instead=instead[-1] if instead else None,
        steps=steps[-1] if steps else None,
    )


def layers_of_models(records: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """Of each record ``source_map``: ``op|source`` -> the module path of each such node. In a program with
    several models the paths begin with the model's name."""
    several = len({record.get("model") for record in records}) > 1
    found = []
    for record in records:
        told, name = record.get("layers"), record.get("model")
        above = str(name).replace(".", "_") if several and name is not None else ""
        layers: dict[str, tuple[str, ...]] = {}
        for key, paths in told.items() if isinstance(told, dict) else ():
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
    """A rank, as its own process tells it."""

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


_STACK = re.compile(r'^  File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,9}) in ', re.MULTILINE)
_CURRENT = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$", re.MULTILINE)
_TAIL_BYTES = 64 << 10
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")


def where_it_was(log: Path) -> str | None:
    """``file:line`` of the program in which a process was when a signal ended it, by the stack that Python's
    faulthandler printed at the end of its log; None without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    starts = [one.end() for one in _CURRENT.finditer(text)]
    if not starts:
        return None
    frames = [(one["file"], one["line"]) for one in _STACK.finditer(text, starts[-1])]
    own = [one for one in frames if not any(part in one[0] for part in _LIBRARIES)]
    file_, line = (own or frames or [("", "")])[0]
    return f"{file_}:{line}" if file_ else None
