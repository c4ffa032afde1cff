"""How dense the package is, and where facts are scattered: the measures that
``test_layers.py`` holds.

Every measure takes the text or the tree of one file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    \#[^\n]*                                                # a comment, which does not count
    |(
      [rbfu]{0,2}(?:"{3}(?:[^\\]|\\.)*?"{3}|'{3}(?:[^\\]|\\.)*?'{3})
      |[rbfu]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |\.?\d(?:[\w.]|(?<=\de)[+-])*
      |\w+
      |\*\*=?|//=?|>>=?|<<=?|\.\.\.|->|:=|[-+*/%&|^@=<>!]=
      |[^\s\\]
    )""",
    re.X | re.S | re.I,
)
"""``tokenize`` in a tenth of its time; a test holds one against the other."""


def tokens(text: str) -> tuple[int, int]:
    """Names, operators, numbers and strings of a file, and the lines on which they
    begin: its lines of code.

    The parts of an f-string count as one string, whatever the version of Python.
    """
    number = lines = 0
    end_of_line = -1
    for token in _TOKEN.finditer(text):
        if token.lastindex is None:
            continue
        number += 1
        if token.start() > end_of_line:
            lines += 1
            end_of_line = text.find("\n", token.start()) % (len(text) + 1)
    return number, lines


def complexity(function: ast.AST) -> int:
    """The decisions of a function and one: statements, and/or, conditional
    expressions, comprehensions."""
    found = 1
    for node in ast.walk(function):
        if isinstance(
            node, (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler)
        ):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
    return found


_DECIDES = re.compile(r"\b(?:if|elif|for|while|except|and|or)\b")


def complex_functions(
    text: str, tree: ast.AST, most: int
) -> Iterator[tuple[str, int]]:
    """Name and complexity of the functions of a file above a complexity."""
    lines = text.splitlines()
    for node in statements(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            # A decision has one of these words, so most functions need no walk
            # through their expressions.
            found = complexity(node) if len(_DECIDES.findall(own)) >= most else 0
            if found > most:
                yield node.name, found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All inside ``node``: expressions, which hold no statement, are most of a
    file."""
    for one in statements_right_inside(node):
        yield one
        yield from statements(one)


def statements_right_inside(node: ast.AST) -> Iterator[ast.AST]:
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, block, ())
        if isinstance(
            inner, list
        ):  # that of a lambda or of a conditional expression is no list
            yield from inner


# -- words read back -----------------------------------------------------------------------------------------

_TEXTS = {"text", "message", "advice", "hint", "unlocks", "note", "title"}
"""Attributes that hold a sentence for a reader."""
_OF_TEXT = {"startswith", "endswith", "partition", "split", "find", "removeprefix"}
_OF_PATTERN = {"search", "match", "fullmatch", "findall", "split", "sub"}


_READS_TEXT = re.compile(rf"\.\s*(?:{'|'.join(_TEXTS)})\b")


def decisions_by_words(text: str, tree: ast.Module) -> int:
    """How often a file decides by the words of a sentence: ``"..." in x.text``,
    ``x.advice.startswith(...)``, ``re.search(..., x.message)``."""
    return sum(map(_reads_words, ast.walk(tree))) if _READS_TEXT.search(text) else 0


def _reads_words(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        if not any(
            isinstance(one, (ast.In, ast.NotIn, ast.Eq, ast.NotEq))
            for one in node.ops
        ):
            return False
        sides = [node.left, *node.comparators]
        return any(map(_is_text, sides)) and any(map(_is_words, sides))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _OF_TEXT and _is_text(node.func.value):
            return True
        return node.func.attr in _OF_PATTERN and any(map(_is_text, node.args))
    return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _TEXTS


def _is_words(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(node.value)
    )


# -- facts outside their home --------------------------------------------------------------------------------

_NAMES = """
    abs add sub mul div relu sigmoid tanh exp log sqrt rsqrt neg erf sin cos gelu silu softplus elu hardswish
    hardtanh leaky_relu softmax log_softmax sum mean var std max min amax amin batch_norm layer_norm dropout
    matmul conv2d linear bmm mm addmm embedding cat stack view reshape permute transpose squeeze unsqueeze
    flatten expand contiguous gather index_select select slice chunk split flip roll rand randn to type_as pow
    where masked_fill copy index_put scatter
"""
_OPERATORS = frozenset(_NAMES.split())


def expressions(tree: ast.Module) -> tuple[int, int]:
    """Return the number of loops in comprehensions, and of conditional
    expressions."""
    nodes = list(ast.walk(tree))
    loops = sum(isinstance(node, ast.comprehension) for node in nodes)
    return loops, sum(isinstance(node, ast.IfExp) for node in nodes)


def operator_tables(tree: ast.Module) -> int:
    """Values at the top of a file that name three operators or more."""
    return sum(len(_operators_in(node)) >= 3 for node in tree.body)


def _operators_in(node: ast.stmt) -> set[str]:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return set()
    words: set[str] = set()
    for inner in ast.walk(node.value):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            text = inner.value
            if len(text) < 400 and text.count(" ") < 40:  # a longer one is prose
                words.update(
                    word.replace("aten::", "").rstrip("_") for word in text.split()
                )
    return words & _OPERATORS


_FUSERS = re.compile(
    r"nvfuser|\bnnc\b|tensorexpr|onednn|llga|inductor|transformer.?engine", re.I
)
_OF_FUSER = re.compile(
    r"nvfuser|nnc|onednn|inductor|(^|[/_])te[_./]|aot|legacy|fusers/", re.I
)


def names_a_fuser(text: str, path: str) -> bool:
    """Whether a file names a fuser although it is none of the files of one, by its
    path in the package."""
    return not _OF_FUSER.search(path) and bool(_FUSERS.search(text))
