"""Blocks that only pages show: bars, curves, the graphs of programs, trees and the
user's source."""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.rendering.values import Cause, Cell, Tone


@dataclass(frozen=True)
class Bar:
    """A bar with its interval, in per cent of the longest; ``hue`` is a class of
    the pages' colours."""

    label: str
    value: str
    detail: str
    width: float
    low: float
    high: float
    hue: str
    tone: Tone = Tone.PLAIN

    @property
    def spoken(self) -> str:
        """The bar for a screen reader."""
        return " ".join(filter(None, (self.label, self.value, self.detail)))


@dataclass(frozen=True)
class Bars:
    """Bars of one scale: a picture, of which a table has the figures."""

    title: str
    note: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Curves:
    """Values of several variants over the same names: a picture, of which a table
    has the figures.

    Args:
        values: of each variant, one a name; None where it has none.
        hues: the colour of each variant.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: tuple[tuple[str, tuple[float | None, ...]], ...]
    hues: tuple[str, ...]


@dataclass(frozen=True)
class Plots:
    """Curves beside one another."""

    rows: tuple[Curves, ...]


@dataclass(frozen=True)
class Moment:
    """A value at a moment.

    Args:
        label: the moment below the axis: a day.
        value: None where it is not known.
        text: the moment and its value in words.
        event: what happened then, in words; "" for nothing.
    """

    label: str
    value: float | None
    text: str
    event: str = ""


@dataclass(frozen=True)
class Timeline:
    """A figure over time: a picture, of which a table has the figures.

    Args:
        is_share: its values are shares, from 0 to 1.
    """

    title: str
    unit: str
    moments: tuple[Moment, ...]
    hue: str
    is_share: bool = False


@dataclass(frozen=True)
class Timelines:
    """Timelines beside one another."""

    rows: tuple[Timeline, ...]


@dataclass(frozen=True)
class Stack:
    """A whole and its parts: (what, share, the part in words)."""

    label: str
    value: str
    parts: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True)
class Stacks:
    """Stacked bars: a picture. ``kinds`` gives each part its colour, ``note`` is
    the picture in words."""

    kinds: tuple[str, ...]
    rows: tuple[Stack, ...]
    note: str = ""


@dataclass(frozen=True)
class Box:
    """A node of a graph.

    Args:
        index: its number in the program.
        kinds: how it looks, as classes of the pages' style.
        spoken: what a screen reader says.
        group: the group that it is.
        reason: the code of the reason why it is in none, which gives it its colour.
    """

    index: int
    lines: tuple[str, ...]
    kinds: tuple[str, ...]
    spoken: str
    group: str | None = None
    reason: str | None = None
    is_round: bool = False


@dataclass(frozen=True)
class Graph:
    """Boxes, and edges between them by their numbers.

    Args: key: its id on a page. apart: for each edge why its two boxes are not one
        kernel; None where nothing shows it. cut: nodes that are left out.
        values_left_out: inputs and outputs of nodes that are left out.
    """

    key: str
    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    apart: tuple[str | None, ...] = ()
    cut: int = 0
    values_left_out: int = 0


@dataclass(frozen=True)
class Plans:
    """The graphs of a program, of which one is shown at a time.

    Args:
        first: the key of the one that is shown before another is chosen.
        reasons: of the boxes, each with how many have it: what can be chosen.
        data: what there is to know of each box, as JSON for page.js.
        left_out: further graphs.
    """

    rows: tuple[Graph, ...]
    first: str
    reasons: tuple[Cause, ...]
    data: dict[str, object]
    left_out: int = 0


@dataclass(frozen=True)
class Branch:
    """A row of a tree, which folds the rows inside it. ``path``: its name from the
    root on."""

    name: str
    path: str
    cells: tuple[Cell, ...]
    is_open: bool
    inside: tuple[Branch, ...]


@dataclass(frozen=True)
class Tree:
    """Rows inside one another; the first of the heads is that of the names."""

    heads: tuple[str, ...]
    rows: tuple[Branch, ...]


@dataclass(frozen=True)
class Annotation:
    """What became of a line of source: groups by their ids, codes of reasons, and
    words."""

    groups: tuple[str, ...]
    codes: tuple[str, ...]
    remark: str

    @property
    def kind(self) -> str:
        """Its class in the pages' style."""
        if self.groups and self.codes:
            return "both"
        return "in" if self.groups else "out"


@dataclass(frozen=True)
class SourceFile:
    """A file of Python.

    Args:
        text: the whole file; None where it is not at hand.
        numbers: the lines that are shown, from 1.
        annotations: line -> what became of it.
    """

    name: str
    text: str | None
    numbers: tuple[int, ...]
    annotations: dict[int, Annotation]
    note: str


@dataclass(frozen=True)
class SourceFiles:
    """Files with annotations at their lines. ``is_full``: further lines are left
    out."""

    rows: tuple[SourceFile, ...]
    is_full: bool = False


@dataclass(frozen=True)
class Picture:
    """The graph of a side of a comparison.

    Args:
        side: A or B.
        graph: None without a plan.
        further: plans that are not shown.
    """

    side: str
    title: str
    graph: Graph | None = None
    further: int = 0


@dataclass(frozen=True)
class Pictures:
    """Pictures beside one another."""

    rows: tuple[Picture, ...]


PictureBlock = (
    Bars | Plots | Timelines | Stacks | Pictures | Plans | Tree | SourceFiles
)
PICTURES = (Bars, Plots, Timelines, Stacks, Pictures, Plans, Tree, SourceFiles)
"""The types of ``PictureBlock``."""
