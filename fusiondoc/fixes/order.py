"""Views and concatenations moved behind what is computed of them element by element:
``torch.tanh(x.view(4, -1))`` becomes ``torch.tanh(x).view(4, -1)``, and ``torch.tanh(torch.cat([x, y], 1))``
``torch.cat([torch.tanh(x), torch.tanh(y)], 1)``. What stood between two groups then stands at the edge of
one.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

from fusiondoc.diagnosis.in_place_operators import plain_name
from fusiondoc.fixes.edits import Edit, Proposal
from fusiondoc.fixes.fixable import Program, Site
from fusiondoc.fixes.syntax import ParsedFile
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_VIEWS = frozenset(
    ["view", "reshape", "permute", "transpose", "t", "flatten", "unsqueeze", "squeeze", "contiguous"]
)
_JOINED = frozenset(["torch.cat", "torch.stack", "torch.concat"])
_NAMES = (
    *("tanh", "sigmoid", "relu", "exp", "log", "sqrt", "rsqrt", "abs", "neg", "erf", "sin", "cos"),
    *("silu", "gelu", "hardswish", "softplus"),
)
_BY_ELEMENT = frozenset(f"{owner}.{name}" for owner in ("torch", "torch.nn.functional") for name in _NAMES)
"""Functions of one tensor that compute each element of its own."""


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line where a view or concatenation is an operator outside every group."""
    for site in (*program.sites, *program.idle_sites):
        if plain_name(site.row.op) in (*_VIEWS, "cat", "stack"):
            for node in site.file.on_line(site.line):
                edits = _moved(site.file, node)
                if edits:
                    yield _proposal(site, node, edits)
                    break


def _proposal(site: Site, node: cst.CSTNode, edits: tuple[Edit, ...]) -> Proposal:
    title = " ".join(f"{site.file.text(node)}: {site.row.op} after it".split())
    return Proposal(ChangeKind.MOVE_VIEW, title, edits, (site.where,), fewer=True)


def _moved(file: ParsedFile, node: cst.CSTNode) -> tuple[Edit, ...]:
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].keyword is not None:
        return ()
    inner = node.args[0].value
    if file.meaning(node.func) not in _BY_ELEMENT or not isinstance(inner, cst.Call):
        return ()
    function = file.text(node.func)
    if file.meaning(inner.func) in _JOINED:
        return _around_parts(file, node, inner, function)
    method = inner.func
    if not isinstance(method, cst.Attribute) or file.meaning(method) is not None:
        return ()
    if method.attr.value not in _VIEWS:
        return ()
    receiver = method.value
    rest = file.source.text[file.span(receiver)[1] : file.span(inner)[1]]
    return (
        file.replaced(
            node, f"{function}({file.text(receiver)}){rest.lstrip(')') if receiver.lpar else rest}"
        ),
    )


def _around_parts(file: ParsedFile, node: cst.Call, joined: cst.Call, function: str) -> tuple[Edit, ...]:
    """The function around each part: the parts have to be written out in a list."""
    parts = joined.args[0].value if joined.args else None
    if not isinstance(parts, (cst.List, cst.Tuple)) or any(
        not isinstance(one, cst.Element) for one in parts.elements
    ):
        return ()
    start, end = file.span(joined)
    edits = [
        Edit(file.source.path, file.span(node)[0], start, ""),
        Edit(file.source.path, end, file.span(node)[1], ""),
    ]
    for one in parts.elements:
        first, last = file.span(one.value)
        edits += [file.inserted(first, f"{function}("), file.inserted(last, ")")]
    return tuple(edits)
