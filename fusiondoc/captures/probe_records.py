"""The records that the probe wrote of a run, line by line in ``records.jsonl``: one
frozen dataclass for each kind of record.

Every record may be missing, cut off or of another version: fields that are not
recorded are None, or empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from fusiondoc.captures.frontend_records import AotRecords, TeRecords, read_te
from fusiondoc.captures.inductor_records import InductorRecords, read_inductor
from fusiondoc.captures.process_records import (
    RankProcess,
    ScriptRecords,
    layers_of_models,
    read_aot_of_processes,
    read_rank,
    read_script,
)
from fusiondoc.captures.raw_records import RawRecords, lines_of, objects
from fusiondoc.captures.switch_records import Switches, read_switches
from fusiondoc.fusers import compiles_python, may_write_to_stdout
from fusiondoc.model import dataclass, field
from fusiondoc.model.runs import Speed, Spread, Verification
from fusiondoc.model.typed_fields import read_object
from fusiondoc.whole_files import open_regular


@dataclass(frozen=True)
class Environment:
    """Python, torch and the GPU. Written again at the end of a script, which may
    touch the GPU only then."""

    gpu: str | None = None
    gpu_memory_gb_per_s: float | None = None
    """Bandwidth from the driver, in 10^9 bytes a second."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """All fields of the record, in the form of a report."""


@dataclass(frozen=True)
class FuserSwitch:
    """The requested fuser, the one that was switched on, and whether it read back
    as on."""

    requested: str | None = None
    effective: str | None = None
    live: bool | None = None
    why: str | None = None


@dataclass(frozen=True)
class ByItself:
    """The fuser of each device without fusiondoc's switches, and these switches by
    the functions of ``torch._C`` that set them."""

    fusers: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class KnobSetting:
    """A knob with the requested value and the value read back."""

    name: str
    requested: Any = None
    effective: Any = None
    live: bool | None = None


@dataclass(frozen=True)
class Loaded:
    """The target: ``how`` is "script" for a file that runs as a script, else
    "model"."""

    how: str | None = None
    label: str | None = None
    signature: str | None = None
    frozen: bool | None = None
    """Whether it is a module whose weights are constants of its graph."""
    frozen_here: bool | None = None
    """Whether fusiondoc froze it, and not the program."""
    training: bool | None = None
    """Whether it was a module in training mode, before fusiondoc changed it; None
    for a function."""
    scripted: bool | None = None
    """Whether it was TorchScript already."""


@dataclass(frozen=True)
class FrontendChoice:
    """The frontend that made the graphs: "torchscript", "aot", "te" or "dynamo"."""

    requested: str | None = None
    effective: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class PassDone:
    """A pass of the model. ``index`` of ``runs`` counts from 1, ``inputs`` (which
    shapes) from 0."""

    index: int
    phase: str
    inputs: int = 0
    runs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Note:
    """A message for the user, for example about an option without effect."""

    text: str


@dataclass(frozen=True)
class ProgramInputs:
    """The inputs of a program, if the request records them
    (``probe/input_watch.py``)."""

    files: tuple[str, ...] = ()
    """Files that it opened or imported, without those of packages."""
    names: tuple[str, ...] = ()
    """Modules that it imported, or tried to: first components of their names."""
    folders: tuple[str, ...] = ()
    """Folders of ``sys.path`` that hold no installed packages."""
    packages: tuple[str, ...] = ()
    """Folders of ``sys.path`` that hold installed packages."""
    beyond: tuple[str, ...] = ()
    """Inputs that are no files: processes, connections, listings of folders."""


@dataclass(frozen=True)
class TimedPasses:
    """Rounds of ``--time``: ``ms`` is minimum, median and maximum of a step in the
    counted rounds."""

    way: str
    phase: str
    inputs: int
    passes: int
    ms: tuple[float, ...]
    warmup_ms: tuple[float, ...]
    memory_bytes: int | None = None
    eager: str | None = None
    """How the eager pass ran, in words."""
    rounds: tuple[float, ...] = ()
    """Milliseconds of a step in each round; the n-th rounds of both ways ran one
    after the other."""

    def as_speed(self) -> Speed | None:
        """The speed; None if the record does not hold three times."""
        if len(self.ms) != 3:
            return None
        first = self.warmup_ms[0] if self.warmup_ms else None
        return Speed(
            self.way,
            self.phase,
            self.inputs,
            Spread(*self.ms),
            self.passes,
            first,
            self.memory_bytes,
            self.warmup_ms,
        )


@dataclass(frozen=True)
class Profiled:
    """Steps under torch's profiler; the figures that are not in the traces."""

    steps: int | None = None
    """Number of profiled steps; None for a script."""
    ms: float | None = None
    """Milliseconds of a profiled step, between events of the GPU or by the
    clock."""
    unprofiled_ms: float | None = None
    """Milliseconds of a step without the profiler."""
    script: bool = False
    device: str | None = None
    """"cuda" or "cpu": the device of the tensors."""
    gb_per_s: float | None = None
    """Bytes that a large copy within the device's memory reads and writes, in 10^9
    a second."""
    matmul_precision: str | None = None
    """``torch.get_float32_matmul_precision()``."""
    allow_tf32: bool | None = None


@dataclass(frozen=True)
class Failure:
    """The error that ended the program, or with which the probe refused (``type``
    "Refused")."""

    stage: str = ""
    type: str = ""
    message: str = ""
    traceback: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Done:
    """The probe came to its end. Seconds since it started, and seconds of its own
    overhead."""

    seconds: float | None = None
    own_seconds: float | None = None


@dataclass(frozen=True)
class LeftRunning:
    """Processes that the program had started and that the supervisor ended after
    its end."""

    names: Mapping[str, int] = field(default_factory=dict)
    """Their names, without arguments, and the number of each; empty if only the
    process group is known."""
    still_running: int = 0
    """Number of processes that could not be ended (those of another user)."""
    fusiondoc_gone: bool = False
    """True if fusiondoc itself had been killed, and the program was ended for that
    reason."""

    @property
    def count(self) -> int:
        return sum(self.names.values())

    @property
    def in_words(self) -> str:
        """A text such as "2 processes that the program had started: python
        worker.py (2)"."""
        if not self.names:
            return "processes that the program had started"
        shown = []
        for name, count in self.names.items():
            shown.append(name if count == 1 else f"{name} ({count})")
        more = f" and {len(shown) - 5} other kinds" if len(shown) > 5 else ""
        many = "1 process" if self.count == 1 else f"{self.count} processes"
        return f"{many} that the program had started: {', '.join(shown[:5])}{more}"


def together(several: Iterable[LeftRunning]) -> LeftRunning | None:
    """The processes that several runs left running, in one record; None for no
    run."""
    every = tuple(several)
    names: Counter[str] = Counter()
    for left in every:
        names.update(left.names)
    if every:
        return LeftRunning(names, sum(left.still_running for left in every))
    return None


@dataclass(frozen=True)
class Redirected:
    """How the program closed or redirected the descriptors at which fusers log (1,
    2); None for one that it did not change."""

    stdout: str | None = None
    stderr: str | None = None

    def loses_of(self, fuser: str | None) -> bool:
        """True if some output of the fuser is lost."""
        return self.stderr is not None or (
            self.stdout is not None and may_write_to_stdout(fuser)
        )

    @property
    def while_away(self) -> bool:
        """True if the program restored everything that it redirected."""
        return all(
            how.endswith("for a while") for how in (self.stdout, self.stderr) if how
        )

    @property
    def in_words(self) -> str:
        """A text such as "stderr is closed and stdout goes to /dev/null"; empty if
        there is none."""
        both = (("stdout", self.stdout), ("stderr", self.stderr))
        return " and ".join(f"{name} {how}" for name, how in both if how)


@dataclass(frozen=True)
class EagerPass:
    """The repetition of a failed fused pass without the fuser, on the same
    inputs."""

    iteration: int
    inputs: int
    passed: bool


@dataclass(frozen=True)
class ProbeRecords:
    """All records of a run."""

    environment: Environment = Environment()
    fuser: FuserSwitch = FuserSwitch()
    target: Loaded = Loaded()
    knobs: tuple[KnobSetting, ...] = ()
    passes: tuple[PassDone, ...] = ()
    notes: tuple[Note, ...] = ()
    speeds: tuple[TimedPasses, ...] = ()
    profiled: Profiled | None = None
    verification: tuple[Verification, ...] = ()
    same_results: tuple[Verification, ...] = ()
    """Comparison of the changed program with the unchanged one, both without a
    fuser (``fix``)."""
    rounding: tuple[Verification, ...] = ()
    """Comparison of the program without a fuser with itself, after a rounding of
    its inputs (``fix``)."""
    source_map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operators of the user's graphs to the lines of the program that they come
    from."""
    layers: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """For each model: ``op|source`` -> the module path of each such node, in the
    order of the inlined graph. In a program with several models the paths begin
    with the model's name."""
    error: Failure | None = None
    eager_pass: EagerPass | None = None
    """Set after an error of a fused pass under ``--verify``."""
    done: Done | None = None
    left: LeftRunning | None = None
    switches: Switches = Switches()
    by_itself: ByItself = field(default_factory=ByItself)
    redirected: Redirected = Redirected()
    frontend: FrontendChoice = FrontendChoice()
    aot: AotRecords = field(default_factory=AotRecords)
    te: TeRecords = field(default_factory=TeRecords)
    compiled: InductorRecords = field(default_factory=InductorRecords)
    script: ScriptRecords = field(default_factory=ScriptRecords)
    rank: RankProcess | None = None
    inputs: ProgramInputs | None = None

    @property
    def passes_in_eager(self) -> bool:
        """True if the failed pass runs in eager on the same inputs, and the fuser
        is the cause: for TorchScript, an earlier unfused pass of the same kind
        succeeded."""
        eager, error = self.eager_pass, self.error
        if eager is None or not eager.passed or error is None:
            return False
        if compiles_python(self.frontend.effective):
            return True
        return any(
            earlier.index < eager.iteration
            and earlier.inputs == eager.inputs
            and earlier.phase == error.stage
            for earlier in self.passes
        )


LiveRecord = FuserSwitch | Loaded | PassDone
"""Records that show the progress of a run."""
LIVE_RECORDS: Mapping[str, type[LiveRecord]] = {
    "fuser": FuserSwitch,
    "target": Loaded,
    "iteration": PassDone,
}


T = TypeVar("T")


class GrowingRecords(Generic[T]):
    """The file of records of a running program. Args: kinds: the records to pass
    on, by their name, such as ``LIVE_RECORDS``;
        others are left out.
    """

    def __init__(self, path: Path, kinds: Mapping[str, type[T]]) -> None:
        self._path = path
        self._kinds = kinds
        self._read = 0

    def new(self) -> list[T]:
        """The records whose lines have become complete since the last call."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        complete = data[: data.rfind(b"\n") + 1]
        self._read += len(complete)
        found: list[T] = []
        for record in lines_of(complete):
            kind = self._kinds.get(record["record"])
            if kind is not None:
                found.extend(objects(kind, [record]))
        return found


_NO_REASON = "asked for"
"""Prefix in captures of the first versions if a fuser was requested by name."""


def _fuser_switch(raw: RawRecords) -> FuserSwitch:
    switch = raw.read_merged("fuser", FuserSwitch) or FuserSwitch()
    if switch.why is None or not switch.why.startswith(_NO_REASON):
        return switch
    return replace(
        switch, why=switch.why[len(_NO_REASON) :].removeprefix("; ") or None
    )


def read_records(data: bytes) -> ProbeRecords:
    """The records in ``records.jsonl``."""
    raw = RawRecords(lines_of(data))
    return ProbeRecords(
        environment=_environment(raw.merged("environment")),
        fuser=_fuser_switch(raw),
        target=raw.read_merged("target", Loaded) or Loaded(),
        knobs=raw.read_all("knob", KnobSetting),
        passes=raw.read_all("iteration", PassDone),
        notes=raw.read_all("note", Note),
        speeds=raw.read_all("speed", TimedPasses),
        profiled=raw.read_merged("profiled", Profiled),
        verification=_compared(raw.all_of("verify")),
        rounding=_compared(raw.all_of("rounding")),
        same_results=_compared(raw.all_of("same_results")),
        source_map=_source_map(raw.all_of("source_map")),
        layers=layers_of_models(raw.all_of("source_map")),
        error=raw.read_merged("error", Failure),
        eager_pass=raw.read_merged("eager_pass", EagerPass),
        done=raw.read_merged("done", Done),
        left=raw.read_merged("left", LeftRunning),
        switches=read_switches(raw),
        by_itself=raw.read_merged("by_itself", ByItself) or ByItself(),
        redirected=raw.read_merged("redirected", Redirected) or Redirected(),
        frontend=raw.read_merged("frontend", FrontendChoice) or FrontendChoice(),
        aot=read_aot_of_processes(raw),
        te=read_te(raw),
        compiled=read_inductor(raw),
        script=read_script(raw),
        rank=read_rank(raw),
        inputs=raw.read_merged("inputs", ProgramInputs),
    )


def _environment(record: dict[str, Any]) -> Environment:
    known = read_object(Environment, record) or Environment()
    texts = {}
    for name, value in record.items():
        if name != "record" and _shown(value):
            texts[name] = str(value)
    return Environment(known.gpu, known.gpu_memory_gb_per_s, texts)


def _shown(value: Any) -> bool:
    return value is not None and value != "" and not isinstance(value, dict)


def _compared(records: Iterable[Mapping[str, Any]]) -> tuple[Verification, ...]:
    """A row for each compared tensor of each pass."""
    rows: list[Verification] = []
    for record in records:
        results = record.get("results")
        if not isinstance(results, list):
            continue
        of_pass = {}
        for name in ("iteration", "inputs", "random"):
            of_pass[name] = record.get(name, ())
        of_tensors = (
            {**result, **of_pass} for result in results if isinstance(result, dict)
        )
        rows.extend(objects(Verification, of_tensors))
    return tuple(rows)


def _source_map(records: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The probe's map of operators to the user's lines.

    A library line alone is a key too, with the callers of all its operators: passes
    replace operators and keep their source.
    """
    sources: dict[str, tuple[str, ...]] = {}
    for record in records:
        for key, lines in _lines_by_key(record.get("callers")):
            sources[key] = lines
        for key, lines in _lines_by_key(record.get("map")):
            sources[key] = lines
    callers: dict[str, dict[str, None]] = {}
    for key, lines in sources.items():
        callers.setdefault(key.partition("|")[2], {}).update(dict.fromkeys(lines))
    sources.update(
        {f"|{source}": tuple(lines) for source, lines in callers.items()}
    )
    return sources


def _lines_by_key(mapped: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The entries of a field of the record, with one line or a list of them;
    without damaged ones."""
    for key, lines in mapped.items() if isinstance(mapped, dict) else ():
        listed = [lines] if isinstance(lines, str) else lines
        if (
            isinstance(listed, list)
            and listed
            and all(isinstance(line, str) for line in listed)
        ):
            yield key, tuple(listed)
