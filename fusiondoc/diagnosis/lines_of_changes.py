"""The lines of the user's program that a change of the plan alters: those that ``fix`` would write.

Nothing is run or imported, and the changed file is parsed again. Where no rewrite fits the line, the plan
shows the general form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fusiondoc.changes.by_recipe import by_recipe, called_as_module
from fusiondoc.changes.edits import Edit as TextEdit
from fusiondoc.changes.kept_tensor import kept_tensor
from fusiondoc.changes.line_edits import line_edits, shown_lines
from fusiondoc.changes.masked_fill import masked_fill
from fusiondoc.changes.moved_views import moved_over_lines
from fusiondoc.changes.out_of_place import modules_in_place, out_of_place
from fusiondoc.changes.printed_later import prints_between
from fusiondoc.changes.recipes import ALL_DIMENSIONS, Recipe
from fusiondoc.changes.reductions import dimensions_named
from fusiondoc.changes.source_file import ParsedFile, parsed_text
from fusiondoc.fusers import nvfuser
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Edit
from fusiondoc.model.report import Program
from fusiondoc.operators import CALLED_BY, plain_name
from fusiondoc.parsers.ir.types import TensorType, parse_type


def lines_out_of_place(text: str, file: str, line: int, op: str) -> tuple[Edit, ...]:
    """The line with the operator's version that makes a new tensor, else the lines of the file that make
    modules which call the operator in place.

    Args:
        text: of the whole file.
        op: as printed, such as ``aten::add_``.
    """
    parsed = parsed_text(text, file)
    if parsed is None:
        return ()
    return line_edits(parsed, file, out_of_place(parsed, line, op), line) or lines_of_modules(text, file, op)


def lines_of_modules(text: str, file: str, op: str) -> tuple[Edit, ...]:
    """Every line of the file that makes a module which calls the operator in place, with
    ``inplace=False``."""
    parsed = parsed_text(text, file)
    kinds = CALLED_BY.get(plain_name(op), ())
    if parsed is None or not any(kind in text for kind in kinds):
        return ()
    edits = [edit for _, kind, edit in modules_in_place(parsed) if kind in kinds]
    return line_edits(parsed, file, edits)


def lines_by_recipe(
    text: str,
    file: str,
    line: int,
    recipe: Recipe,
    rank: int | None = None,
    attribute: str | None = None,
    as_tensor: bool = False,
) -> tuple[Edit, ...]:
    """The line with the operator written by the recipe, and lines that come before it.

    Args:
        rank: dimensions of the operator's input, for recipes that list them all.
        attribute: the name of the module that calls the operator: ``self.act(x)`` is such a call too, if the
            module is made without arguments in the same file.
        as_tensor: a number where the recipe needs a tensor becomes one.
    """
    parsed = parsed_text(text, file)
    if parsed is None or recipe.shown:
        return ()
    return line_edits(parsed, file, _by_recipe(parsed, line, recipe, rank, attribute, as_tensor), line)


def _by_recipe(
    file: ParsedFile, line: int, recipe: Recipe, rank: int | None, attribute: str | None, as_tensor: bool
) -> tuple[TextEdit, ...]:
    if recipe.numbers_too:
        found = masked_fill(file, line, as_tensor, only_numbers=as_tensor)
        return found[0].edits if found else ()
    if ALL_DIMENSIONS in recipe.after:
        if rank is None:
            return ()
        if recipe.arguments and recipe.replaces <= set(nvfuser.WITH_DIMENSIONS_ONLY):
            return tuple(edit for _, edit in dimensions_named(file, line, recipe.of, rank))[:1]
        recipe = replace(recipe, after=recipe.over_all(rank))
    made = by_recipe(file, line, recipe)
    if made is None and attribute is not None:
        made = called_as_module(file, line, recipe, attribute)
    return made.edits if made is not None else ()


@dataclass(frozen=True)
class ShownLines:
    """Lines that change, and how they are shown."""

    edits: tuple[Edit, ...]
    before: str
    after: str


def lines_moved(text: str, file: str, line: int) -> ShownLines | None:
    """``h = x.view(4, 8)`` and lines that compute each element of ``h``: the view after them, where nothing
    that the next statement computes is left behind it."""
    parsed = parsed_text(text, file)
    for found in moved_over_lines(parsed, line) if parsed is not None else ():
        assert parsed is not None
        edits = line_edits(parsed, file, found.edits) if found.is_all else ()
        if edits:
            numbers = [edit.line for edit in edits]
            return ShownLines(edits, *shown_lines(parsed, edits, min(numbers), max(numbers)))
    return None


def lines_of_kept_tensor(text: str, file: str, line: int, detached: bool) -> ShownLines | None:
    """The tensor instead of the number that is read from it, with the expression before and after.

    Args:
        line: of an operator that takes the number.
        detached: gradients are recorded.
    """
    parsed = parsed_text(text, file)
    found = kept_tensor(parsed, line, detached) if parsed is not None else None
    if parsed is None or found is None:
        return None
    edits = line_edits(parsed, file, found.edits)
    return ShownLines(edits, found.before, found.after) if edits else None


@dataclass(frozen=True)
class PrintedLines(ShownLines):
    """Prints that go behind the operators of a function."""

    pairs: frozenset[int]
    """The pairs of lines that they stand between, by their index."""


def lines_printed_later(text: str, file: str, pairs: Sequence[tuple[int, int]]) -> Iterator[PrintedLines]:
    """Prints between lines that compute, moved behind the last of them; one for each function.

    Args:
        pairs: the last line of the operators before a print, and the first line of those after it.
    """
    parsed = parsed_text(text, file)
    for found in prints_between(parsed, pairs) if parsed is not None else ():
        assert parsed is not None
        edits = line_edits(parsed, file, found.edits)
        if edits:
            last = parsed.last_line(found.last)
            shown = shown_lines(parsed, edits, found.statements[0].lineno, last)
            yield PrintedLines(edits, *shown, found.pairs)


def ranks_of(programs: Iterable[Program]) -> dict[int | None, int]:
    """Row (``Unfused.index``) of operators outside groups -> dimensions of their first input, where all nodes
    of the row agree."""
    found: dict[int, set[int | None]] = {}
    for program in programs:
        for node in program.nodes:
            if node.kind == "operator" and node.inputs:
                tensor = parse_type(node.inputs[0])
                sizes = tensor.sizes if isinstance(tensor, TensorType) else None
                for row in node.rows:
                    found.setdefault(row, set()).add(len(sizes) if sizes is not None else None)
    agreed = {row: next(iter(ranks)) for row, ranks in found.items() if len(ranks) == 1}
    return {row: rank for row, rank in agreed.items() if rank is not None}
