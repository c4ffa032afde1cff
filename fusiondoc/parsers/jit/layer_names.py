"""Names of layers: paths of modules, such as ``encoder.layer.0``.

Traces write a scope after each node (``torch/nn/modules/module.py``,
``_slow_forward``; printed by ``Node::print`` of torch/csrc/jit/ir/ir.cpp).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_BRACKETED = re.compile(r"\[([^\]]+)\]\Z")
_DIGITS = re.compile(r"\d+")


@lru_cache(maxsize=8192)
def layer_of_scope(scope: str | None) -> str | None:
    """Return ``encoder.layer.0`` from the text after ``scope:``; None for the model
    itself.

    The forms: ``__module.encoder/__module.encoder.layer.0``, full paths, each below
    the previous (since torch 1.5); ``BertModel/BertLayer[layer]/Linear[q]``, names
    in the parent module (until 1.4); and ``Model::/Linear::encoder.q``, full paths
    (torch.onnx since 1.13, ``torch/onnx/utils.py``).
    """
    if not scope:
        return None
    levels = [level for level in scope.split("/") if level]
    if not levels:
        return None
    last = levels[-1]
    if last.startswith("__module"):
        return last[len("__module") :].lstrip(".") or None
    if "::" in last:
        return last.rpartition("::")[2] or None
    names = [found.group(1) for found in map(_BRACKETED.search, levels) if found]
    return ".".join(names) or None


def common_layer(layers: Iterable[str | None]) -> str | None:
    """Return the layer of a group of operators with these layers; None if none is
    known.

    It is their nearest common parent: for ``output.dropout``, ``output`` and
    ``output.LayerNorm`` it is ``output``. If that is the whole model, or a list of
    layers (two of ``encoder.layer.0.output`` and one of
    ``encoder.layer.1.attention``), only the layers of the child with most of them
    count; the first child if several have as many.
    """
    paths = [tuple(layer.split(".")) for layer in layers if layer]
    while paths:
        depth = _shared(paths)
        below = [path[depth] for path in paths if len(path) > depth]
        in_list = len(below) == len(paths) and _are_layers(paths, depth)
        if depth and not in_list:
            return ".".join(paths[0][:depth])
        most = Counter(below).most_common(1)[0][0]
        paths = [path for path in paths if path[depth] == most]
    return None


def parent_layer(layers: Iterable[str]) -> str | None:
    """Return the nearest common parent; None if that is the model."""
    paths = [tuple(layer.split(".")) for layer in layers]
    return ".".join(paths[0][: _shared(paths)]) or None


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the number of names that all paths begin with."""
    first, last = min(paths), max(paths)
    for depth, (name, other) in enumerate(zip(first, last)):
        if name != other:
            return depth
    return min(len(first), len(last))


def _are_layers(paths: Sequence[tuple[str, ...]], depth: int) -> bool:
    """True if the modules at this depth differ only in a number, and contain
    further modules."""
    names = {_DIGITS.sub("#", path[depth]) for path in paths}
    if len(names) > 1 or "#" not in names.pop():
        return False
    return any(len(path) > depth + 1 for path in paths)
