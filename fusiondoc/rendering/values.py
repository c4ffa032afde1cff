"""The cells of tables: the type of a cell determines its unit, so each unit is
written in one way.

A value of None is not known.
"""

from __future__ import annotations

from enum import Enum

from fusiondoc.model import dataclass


class Tone(Enum):
    """The emphasis of a cell. The values are the classes of the pages' style."""

    PLAIN = ""
    STRONG = "strong"
    DIM = "muted"
    GOOD = "faster"
    BAD = "broken"
    DOUBTFUL = "slower"
    NOTE = "note"


@dataclass(frozen=True)
class Text:
    """Words; ``tone`` is their emphasis."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Count:
    """A number of things; ``base`` is the number that it is compared with."""

    number: int | None
    tone: Tone = Tone.PLAIN
    base: int | None = None


@dataclass(frozen=True)
class Millis:
    """A duration; ``low`` and ``high`` are its interval. The head of its column has
    the unit."""

    ms: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Micros:
    """A short duration in milliseconds, shown in microseconds. The head of its
    column has the unit."""

    ms: float | None


@dataclass(frozen=True)
class Duration:
    """A duration in milliseconds, written with a suitable unit."""

    ms: float | None


@dataclass(frozen=True)
class Seconds:
    """A longer duration, written with its unit."""

    seconds: float | None


@dataclass(frozen=True)
class Bytes:
    """An amount of memory."""

    number: int | None


@dataclass(frozen=True)
class Megabytes:
    """An amount of memory, in bytes, shown in megabytes. The head of its column has
    the unit."""

    number: int | None


@dataclass(frozen=True)
class Extents:
    """The extents of a grid or of a block."""

    extents: tuple[int, int, int] | None


@dataclass(frozen=True)
class Share:
    """A part of a whole: 0 to 1."""

    share: float | None
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Rate:
    """Steps a second, or bytes a second: a whole number whose unit the head of its
    column has."""

    rate: float | None


@dataclass(frozen=True)
class Factor:
    """A speed or an amount as a multiple; ``low`` and ``high`` are its interval."""

    factor: float | None
    low: float | None = None
    high: float | None = None
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class ResultDifference:
    """The difference of two results, of which the order of magnitude matters."""

    difference: float | None


@dataclass(frozen=True)
class Status:
    """A status: ``new``, ``slower``. ``sign`` replaces it in a list on a
    terminal."""

    word: str
    tone: Tone = Tone.PLAIN
    sign: str = ""


@dataclass(frozen=True)
class IdLinks:
    """Groups or kernels by their ids: links in formats that have them. ``most`` of
    them are named; None: all, and six on a page."""

    ids: tuple[str, ...]
    most: int | None = None


@dataclass(frozen=True)
class Named:
    """An id followed by a name from the log: a link to the entry with this id."""

    id: str
    name: str


@dataclass(frozen=True)
class Snippet:
    """A piece of code on one line: an operator, a path of modules."""

    text: str


@dataclass(frozen=True)
class Types:
    """Types of tensors, each short and as the log prints it; ``size``: their bytes
    in words."""

    types: tuple[tuple[str, str], ...]
    size: str = ""


@dataclass(frozen=True)
class ShownPosition:
    """A source position, and the code there if it is available."""

    where: str
    code: str = ""


@dataclass(frozen=True)
class ShownPositions:
    """Several source positions."""

    positions: tuple[ShownPosition, ...]


@dataclass(frozen=True)
class Quotes:
    """Lines of the log, and the number of further lines."""

    lines: tuple[ShownPosition, ...]
    left_out: int = 0


@dataclass(frozen=True)
class ShownReason:
    """Why an operator is in no group.

    Args:
        code: the code of the reason, which determines its colour on a page.
        stated: the log states it; else it is inferred.
        count: number of operators with it; 0 if that is shown elsewhere.
    """

    code: str
    text: str
    stated: bool
    count: int = 0


@dataclass(frozen=True)
class Gauge:
    """A bar that fills ``share`` of its room (0 to 1; more is above the peak).

    Args:
        label: the share in words.
        kind: a class of the pages' style, which determines the colour of the bar.
    """

    share: float
    label: str
    kind: str = ""

    @property
    def width(self) -> str:
        """Width in per cent; any share above 0 is visible."""
        if self.share > 0:
            return f"{min(100.0, max(1.5, self.share * 100)):.1f}"
        return "0"


@dataclass(frozen=True)
class Sparkline:
    """Values in their order as a line of blocks; None for an unknown value."""

    values: tuple[float | None, ...]


Cell = (
    Text
    | Sparkline
    | Count
    | Millis
    | Micros
    | Duration
    | Seconds
    | Bytes
    | Megabytes
    | Extents
    | Share
    | Rate
    | Factor
    | ResultDifference
    | Status
    | IdLinks
    | Named
    | Snippet
    | Types
    | ShownPosition
    | ShownPositions
    | Quotes
    | ShownReason
    | Gauge
)
UNKNOWN = Count(None, Tone.DIM)
"""The cell of a table where nothing was measured."""
