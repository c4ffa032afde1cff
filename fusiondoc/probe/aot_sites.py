"""A place that wraps functions, and what a call did to its arguments."""

from __future__ import annotations

from typing import Any, Sequence

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
