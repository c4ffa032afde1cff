"""What a report is of: the target and what was asked for, and the texts that it refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, Protocol

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.typed_fields import as_json

if TYPE_CHECKING:
    from fusiondoc.model.report import Evidence


@dataclass(frozen=True)
class Options:
    """The options of a run as a capture keeps them; ``RunRequest`` says what each means. None: not told."""

    fuser: str | None = None
    frontend: str | None = None
    recipes: tuple[str, ...] = ()
    runs: int | None = None
    backward: bool | None = None
    trace: bool | None = None
    script: bool | None = None
    script_args: tuple[str, ...] = ()
    step_function: str | None = None
    inputs: tuple[str, ...] = ()
    device: str | None = None
    seed: int | None = None
    timeout: float | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    dumps: tuple[str, ...] = ()
    verify: bool | None = None
    no_freeze: bool | None = None
    freeze: bool | None = None
    eval: bool | None = None
    in_place_off: bool | None = None
    timing: bool | None = None
    timing_rounds: int | None = None
    profile: bool | None = None
    log_limit: int | None = None
    launcher: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = as_json(self)
        return found

    def told(self) -> dict[str, Any]:
        """Those that are set to anything, by name."""
        return {name: value for name, value in self.as_json().items() if value not in (None, False, [], {})}


@dataclass(frozen=True)
class Target:
    """What a report is of. Of logs alone only the name is told."""

    name: str | None = None
    """As the user named it; of logs the first three."""
    frozen: str | None = None
    """Who froze the module: "fusiondoc" or "program"; None if nobody did, or nothing tells."""
    command: tuple[str, ...] = ()
    """The command line of fusiondoc."""
    options: Options | None = None
    """What was asked of the run."""
    environment_set: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that fusiondoc set."""
    capture: str | None = None
    """The folder of the capture, as seen from the current one."""
    folder: str | None = None
    """The folder that the program was run in."""

    @property
    def of_capture(self) -> bool:
        """Whether it is told what was asked for."""
        return self.capture is not None or self.options is not None


class Texts(Protocol):
    """Texts that a report refers to and does not hold, read when asked for."""

    def source(self, file: str) -> str | None:
        """The program's own source file, by its name in the log; None if it is not at hand."""

    def log(self, lines: Iterable[Evidence], graphs: Iterable[Evidence]) -> Mapping[Evidence, str]:
        """Lines of the log, and graphs that begin on a line of it, without what torch and launchers put
        before each line; what cannot be read again is missing."""
