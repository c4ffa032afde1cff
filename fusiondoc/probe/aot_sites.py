"""A place that wraps functions, and what a call did to its arguments."""

from __future__ import annotations

import functools
import sys
from typing import Any, Sequence

from .aot_graphs import value_text

MOST = 64
"""Shapes of calls, and what they did to arguments, that are told of a place."""

WRAPPED = "_fusiondoc_aot"
"""An attribute of what ``aot_function`` has returned."""


class Site:
    """A place of the program that wraps a function, with what has become of it."""

    def __init__(self, number: int, name: str, how: str, at: str | None) -> None:
        self.number = number
        self.name = name
        self.how = how
        self.at = at
        self.wraps = 0
        self.calls: int | None = None
        self.compiles = 0
        self.scripted = 0
        self.failures = 0
        self.shapes: list[str] = []
        self.changed: list[str] = []
        self.shared: list[str] = []
        self.written: set[str] = set()
        """Phases of the compilation that goes on whose graphs are recorded."""
        self.forward_waits = False
        """Its graphs were partitioned, and the forward graph is not compiled yet."""
        self.told = False

    def forget(self) -> None:
        """In a fork: nothing was done with it yet."""
        self.told = self.forward_waits = False
        self.wraps = self.compiles = self.scripted = self.failures = 0
        self.calls = None if self.calls is None else 0
        self.shapes, self.changed, self.shared, self.written = [], [], [], set()

    @property
    def is_used(self) -> bool:
        """Whether anything was done with it."""
        return bool(self.wraps or self.calls or self.compiles)

    def used(self) -> dict[str, Any]:
        """What was done with it, as a record has it."""
        names = ("wraps", "calls", "compiles", "failures", "shapes", "changed", "shared")
        return dict({name: getattr(self, name) for name in names}, site=self.number)

    def begin(self, partitioned: bool) -> None:
        """It is compiled once more."""
        self.compiles += 1
        self.written = set()
        self.forward_waits = partitioned

    def note_shapes(self, torch: Any, args: Sequence[Any]) -> bool:
        """Whether it is called with these types and sizes for the first time."""
        if len(self.shapes) >= MOST:
            return False
        shown = [value for value in args if not isinstance(value, dict)]  # parameters of aot_module
        text = ", ".join(value_text(torch, value) for value in shown)
        if text in self.shapes:
            return False
        self.shapes.append(text)
        return True

    def note_memory(self, changed: Sequence[str], shared: Sequence[str]) -> None:
        """What a call did to its arguments."""
        for found, more in ((self.changed, changed), (self.shared, shared)):
            found.extend(one for one in more if one not in found)
            del found[MOST:]


def versions(torch: Any, args: Sequence[Any]) -> list[int | None]:
    """The version counter of each tensor, which every change in place moves on; None for anything else."""
    found: list[int | None] = []
    for value in args:
        try:
            found.append(int(value._version) if isinstance(value, torch.Tensor) else None)
        except RuntimeError:  # a tensor of inference mode has none
            found.append(None)
    return found


def changed_since(torch: Any, args: Sequence[Any], before: Sequence[int | None]) -> list[str]:
    """The arguments that have another version now, such as "argument 1"."""
    pairs = enumerate(zip(before, versions(torch, args)), 1)
    return ["argument %d" % number for number, (old, new) in pairs if old != new]


def sharing(torch: Any, args: Sequence[Any], result: Any) -> list[str]:
    """Arguments that share memory, and results that share it with them."""
    held = [(n, _storage(one)) for n, one in enumerate(args, 1) if isinstance(one, torch.Tensor)]
    found = []
    for index, (number, storage) in enumerate(held):
        for other, same in held[:index]:
            if storage and storage == same:
                found.append("arguments %d and %d" % (other, number))
    results = result if isinstance(result, (list, tuple)) else [result]
    for place, one in enumerate(results, 1):
        for number, storage in held if isinstance(one, torch.Tensor) else ():
            if storage and storage == _storage(one):
                found.append("result %d and argument %d" % (place, number))
    return found


def _storage(tensor: Any) -> int:
    """Where a tensor's memory begins; 0 for none."""
    held = getattr(tensor, "untyped_storage", None)
    return int(held().data_ptr() if held is not None else tensor.storage().data_ptr())


def name_of(function: Any) -> str:
    """What a function, a partial one or an object that is called is named."""
    inner = getattr(function, "func", function)  # functools.partial
    return str(getattr(inner, "__qualname__", None) or getattr(inner, "__name__", type(inner).__name__))


def graph_breaks() -> tuple[int, dict[str, int]]:
    """By torch.compile's own counters (torch/_dynamo/utils.py, 2.0 to 2.13): graphs, and how often which
    reason cut a function in two."""
    counters: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    try:
        reasons = {str(why).split("\n")[0][:300]: int(n) for why, n in counters["graph_break"].items()}
        return int(counters["stats"].get("unique_graphs", 0)), reasons
    except Exception:  # none, or of another kind
        return 0, {}


def marking(original: Any) -> Any:
    """``aot_function`` whose results can be told from other functions."""

    @functools.wraps(original)
    def aot_function(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        vars(made)[WRAPPED] = "AOTAutograd"
        return made

    return aot_function
