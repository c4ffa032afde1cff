"""What the probe tells of a program that ran as it is (probe/program_watch.py, script_steps.py): one frozen
dataclass a kind of record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.model.typed_fields import read_object


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
    return ScriptRecords(
        models=read("scripted_model", ScriptedModel),
        instead=instead[-1] if instead else None,
        steps=steps[-1] if steps else None,
    )
