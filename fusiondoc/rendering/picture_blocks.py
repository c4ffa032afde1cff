"""Blocks that only pages show: bars, curves, the graphs of programs, trees and the
user's source."""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.rendering.values import Cell, ShownReason, Tone


@dataclass(frozen=True)
class Bar:
    """A bar with its interval, in per cent of the longest bar; ``hue`` is a class
    of the pages' colours."""

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
        """The text of the bar for a screen reader."""
        return " ".join(filter(None, (self.label, self.value, self.detail)))


@dataclass(frozen=True)
class Bars:
    """Bars of one scale: a picture; a table has the figures."""

    title: str
    note: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Curves:
    """Values of several variants over the same names: a picture; a table has the
    figures.

    Args:
        values: for each variant one value a name; None if it has none.
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
    """A value at a point in time.

    Args:
        label: the date below the axis.
        value: None if it is not known.
        text: the date and the value in words.
        event: an event at that time, in words; "" for none.
    """

    label: str
    value: float | None
    text: str
    event: str = ""


@dataclass(frozen=True)
class Timeline:
    """A figure over time: a picture; a table has the figures.

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
    """A whole and its parts: (kind, share, the part in words)."""

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
        index: its index in the program.
        kinds: its classes in the pages' style.
        spoken: its text for a screen reader.
        group: id of the group that it is.
        reason: the code of the reason why it is in no group, which determines its
            colour.
    """

    index: int
    lines: tuple[str, ...]
    kinds: tuple[str, ...]
    spoken: str
    group: str | None = None
    reason: str | None = None
    is_round: bool = False


@dataclass(frozen=True)
class PictureGraph:
    """Boxes, and edges between them by their indexes.

    Args: key: its id on a page. apart: for each edge why its two boxes are not one
        kernel; None if that is not known. cut: number of nodes that are left out.
        values_left_out: number of inputs and outputs of nodes that are left out.
    """

    key: str
    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    apart: tuple[str | None, ...] = ()
    cut: int = 0
    values_left_out: int = 0


@dataclass(frozen=True)
class ProgramGraphs:
    """The graphs of a program, of which one is shown at a time.

    Args:
        first: the key of the graph that is shown first.
        reasons: the reasons of the boxes, each with its number of boxes, for the
            selection of boxes.
        data: details of each box, as JSON for page.js.
        left_out: number of further graphs.
    """

    rows: tuple[PictureGraph, ...]
    first: str
    reasons: tuple[ShownReason, ...]
    data: dict[str, object]
    left_out: int = 0


@dataclass(frozen=True)
class Branch:
    """A row of a tree, which folds the rows inside it. ``path``: its full path from
    the root."""

    name: str
    path: str
    cells: tuple[Cell, ...]
    is_open: bool
    inside: tuple[Branch, ...]


@dataclass(frozen=True)
class Tree:
    """Nested rows; the first of the heads is that of the names."""

    heads: tuple[str, ...]
    rows: tuple[Branch, ...]


@dataclass(frozen=True)
class Annotation:
    """Marks of a line of source: groups by their ids, codes of reasons, and a
    remark."""

    groups: tuple[str, ...]
    codes: tuple[str, ...]
    remark: str

    @property
    def kind(self) -> str:
        """The class of the mark in the pages' style."""
        if self.groups and self.codes:
            return "both"
        if self.groups:
            return "in"
        return "out"


@dataclass(frozen=True)
class SourceFile:
    """A file of Python.

    Args:
        text: the whole file; None if it is not available.
        numbers: the lines that are shown, from 1.
        annotations: line -> its marks.
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
    graph: PictureGraph | None = None
    further: int = 0


@dataclass(frozen=True)
class Pictures:
    """Pictures beside one another."""

    rows: tuple[Picture, ...]


PictureBlock = (
    Bars
    | Plots
    | Timelines
    | Stacks
    | Pictures
    | ProgramGraphs
    | Tree
    | SourceFiles
)
PICTURES = (
    Bars,
    Plots,
    Timelines,
    Stacks,
    Pictures,
    ProgramGraphs,
    Tree,
    SourceFiles,
)
"""The types of ``PictureBlock``."""
