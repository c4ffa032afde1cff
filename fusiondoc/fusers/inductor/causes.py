"""Why two nodes of Inductor's scheduler stayed apart: the causes, and the texts in
which torch states them.

The texts are those given to ``WhyNoFuse`` in torch 2.6 to 2.14
(``torch/_inductor/scheduler.py``, ``choices.py``, ``codegen/simd.py``,
``codegen/cutlass/scheduling.py``). They change with each release; a test reads the
source of the installed torch and fails on a text that no row here knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from re import Pattern

from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause
from fusiondoc.numbers import all_whole, whole_number


@dataclass(frozen=True)
class RefusalText:
    """A text with which torch states a refusal."""

    cause: ApartCause
    form: str
    """The text as a regular expression."""
    since: tuple[int, int]
    until: tuple[int, int] | None
    """The last release that is known to have it; None: 2.14, the newest one read,
    has it."""

    @property
    def pattern(self) -> Pattern[str]:
        """The compiled expression; compiled at its first use, as most reports are
        of no compiled run. ``re`` caches it."""
        return re.compile(self.form, re.DOTALL)


def _text(
    cause: ApartCause, pattern: str, since: int = 6, until: int | None = None
) -> RefusalText:
    """A text of torch 2.``since`` to 2.``until``."""
    return RefusalText(
        cause, pattern, (2, since), None if until is None else (2, until)
    )


_PAIRS = r" \(.*\), \(.*\)"

TEXTS: tuple[RefusalText, ...] = (
    _text(ApartCause.CALL, r"node1 is extern or nop", until=11),
    _text(ApartCause.CALL, r"node1 is nop", 12),
    _text(ApartCause.CALL, r"node1 is extern but not a triton kernel", 12),
    _text(ApartCause.CALL, r"node2 is extern or nop"),
    _text(ApartCause.ACCESS, r"no shared data(?: due to indexing mismatch)?"),
    _text(ApartCause.ACCESS, r"score_fusion_memory_threshold"),
    _text(ApartCause.SIZES, rf"numel/rnumel mismatch \(non-reduce\){_PAIRS}"),
    _text(ApartCause.REDUCTIONS, rf"numel/rnumel mismatch \(reduce\){_PAIRS}"),
    _text(
        ApartCause.REDUCTIONS,
        r"reduction fusion does not preserve strict sum ordering",
        14,
    ),
    _text(ApartCause.SIZES, r"nodes numel(?:/rnumel)? incompatibility"),
    _text(ApartCause.ELEMENTS, r"memory deps did not match"),
    _text(ApartCause.BETWEEN, r"intermediate nodes between node1 & node2"),
    _text(ApartCause.BETWEEN, r"will create cycle"),
    _text(ApartCause.BETWEEN, r"node1 must go before node2"),
    _text(ApartCause.TILING, r"tiling mismatch \(.*\)"),
    _text(ApartCause.TILING, r"invalid tiling for reduction"),
    _text(
        ApartCause.TILING, r"invalid loop order and tiling for native matmul", 10
    ),
    _text(ApartCause.TILING, r"Split scan cannot fuse with reductions"),
    _text(ApartCause.TEMPLATE, r"template epilogue not satisfied"),
    _text(ApartCause.TEMPLATE, r"templates can only fuse epilogues", until=6),
    _text(ApartCause.TEMPLATE, r"\w+ is not TritonTemplateBuffer", until=7),
    _text(ApartCause.TEMPLATE, r"prologue fusion turned off", 7),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion only supported for pointwise nodes",
        7,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion only supported for TritonTemplates",
        7,
        11,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion not implemented for kernel for these inputs",
        7,
    ),
    _text(ApartCause.TEMPLATE, r"template has no allowed prologue inputs", 12),
    _text(
        ApartCause.TEMPLATE,
        r"template prologue can only fuse functional pointwise nodes",
        7,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"template prologue can only fuse nodes with a single use(?: into template)?",
        7,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion will not increase amount of bytes read in kernel",
        7,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion will not increase attempt to fuse in padding .*",
        7,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"prologue fusion that must be upcast to fp32 not profitable .*",
        7,
    ),
    _text(
        ApartCause.TEMPLATE, rf"numel/rnumel mismatch prologue mismatch{_PAIRS}", 7
    ),
    _text(
        ApartCause.TEMPLATE,
        r"multi-output template epilogue requires ComputedBuffer",
        12,
    ),
    _text(ApartCause.TEMPLATE, r".* is not a (?:ComputedBuffer|Pointwise op)", 8),
    _text(ApartCause.TEMPLATE, r".* does not have a computed buffer name", 8),
    _text(ApartCause.TEMPLATE, r".*'s size: .* differs from .*'s size: .*", 8),
    _text(
        ApartCause.TEMPLATE,
        r".* is a reduction which is not yet supported by EVT",
        8,
    ),
    _text(ApartCause.TEMPLATE, r"cutlass epilogue fusion is not enabled", 8),
    _text(
        ApartCause.TEMPLATE,
        r"epilogue fusion is only supported for TMA-enabled gemm ops",
        8,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"external read .* is a non-contiguous compatible reshape of template .*",
        14,
    ),
    _text(
        ApartCause.TEMPLATE,
        r"template fusion does not preserve strict sum ordering",
        14,
    ),
    _text(ApartCause.TEMPLATE, r"Cannot fuse epilogue node .* into .*", 8),
    _text(
        ApartCause.USER_KERNEL,
        r"node1's triton kernel doesn't support epilogue fusion",
        12,
    ),
    _text(
        ApartCause.USER_KERNEL,
        r"node1 is extern but node2(?:\.node(?:\.data)?)? is not (?:SchedulerNode|Pointwise)",
        12,
    ),
    _text(
        ApartCause.USER_KERNEL,
        r"epilogue reads from buffers other than the mutated output",
        12,
        13,
    ),
    _text(
        ApartCause.USER_KERNEL,
        r"epilogue is not a unary read of the output buffer",
        14,
    ),
    _text(ApartCause.USER_KERNEL, r"epilogue's read and write indices differ", 14),
    _text(
        ApartCause.USER_KERNEL, r"node1 and node2 uses different buf layouts", 12
    ),
    _text(ApartCause.MUTATION, r".* has aliasing or mutation", 8),
    _text(ApartCause.MUTATION, r"fusion for buffer explicit disabled"),
    _text(ApartCause.DEVICE, r"device mismatch \(.* vs .*\)"),
    _text(ApartCause.TOO_LARGE, r"exceeds max fusion"),
    _text(ApartCause.TOO_LARGE, r"fusion_prevent_too_many_reads_and_writes", 10),
    _text(ApartCause.TOO_LARGE, r"Fusion accumulate large amount of reads", 9, 9),
    _text(ApartCause.MEMORY, r"Fusion will increase peak memory"),
    _text(
        ApartCause.MEMORY,
        r"Nodes are too far away\. Fusing them may increase peak memory\.",
    ),
    _text(
        ApartCause.SLOWER, r"register spilling of the (?:first|second|fused) kernel"
    ),
    _text(ApartCause.GROUPED, r"foreach do not have same length"),
    _text(
        ApartCause.GROUPED, r"candidate (?:producer|consumer) is a reduction, .*"
    ),
    _text(
        ApartCause.GROUPED, r"candidate producer is not dep of any foreach consumer"
    ),
    _text(
        ApartCause.GROUPED, r"candidate consumer has no dep in any foreach producer"
    ),
    _text(ApartCause.GROUPED, r"grouped node must not be fused with other nodes"),
)
"""Every text; the first that matches counts."""


def cause_of(text: str) -> ApartCause:
    """The cause that torch's text states; OTHER for a text that is not known."""
    for row in TEXTS:
        if row.pattern.fullmatch(text):
            return row.cause
    return ApartCause.OTHER


CODE_OF_CAUSE: dict[ApartCause, str] = {
    cause: f"FD{number}" for number, cause in enumerate(ApartCause, 261)
}
"""The finding code of each cause: FD261 to FD279."""


_DIFFERENCES: tuple[tuple[str, AccessDifference], ...] = (
    ("Mismatch loop orders", AccessDifference.ORDER),
    ("different offset", AccessDifference.PART),
    ("different numel", AccessDifference.COUNT),
    ("broadcast", AccessDifference.BROADCAST),
    ("not MemoryDep", AccessDifference.OPAQUE),
)


_ORDERS = re.compile(r"Mismatch loop orders: (.*) v\.s\. (.*)", re.DOTALL)
"""torch merges loops after the last round: accesses that are equal then had loops
of different sizes before."""


def difference_of(text: str) -> AccessDifference:
    """Parse the reason that ``Scheduler.decide_fusion_fail_reason``
    (torch/_inductor/scheduler.py, 2.6 to 2.13) prints for a buffer: ``different
    offset: 0 v.s. 48``."""
    orders = _ORDERS.fullmatch(text)
    if orders is not None and orders[1] == orders[2]:
        return AccessDifference.LOOPS
    for begin, difference in _DIFFERENCES:
        if text.startswith(begin):
            return difference
    return AccessDifference.UNKNOWN


_ACCESS = re.compile(r"(.*), \(([\w ,]*)\)", re.DOTALL)
_OFFSET = re.compile(r"(?:\A|\s\+\s)(\d+)\Z")
_VARIABLE = re.compile(r"\b[a-z]\d+\b")


@dataclass(frozen=True)
class _Index:
    """A parsed index expression: ``128*d0 + d1 + 48, (32, 128)``."""

    expression: str
    """The expression without the offset, variables renamed in the order of their
    occurrence: ``128*i0 + i1``."""
    offset: str
    sizes: tuple[str, ...]
    loops: str
    """The same with torch's names of the loops, which contain their numbers:
    ``128*d0 + d1``."""

    @classmethod
    def of(cls, text: str) -> _Index | None:
        found = _ACCESS.fullmatch(text)
        if found is None:
            return None
        sizes = tuple(size.strip() for size in found[2].split(",") if size.strip())
        offset = _OFFSET.search(found[1])
        expression = _OFFSET.sub("", found[1])
        names: dict[str, str] = {}
        for name in _VARIABLE.findall(expression):
            names.setdefault(name, f"i{len(names)}")
        renamed = _VARIABLE.sub(lambda variable: names[variable[0]], expression)
        return cls(
            renamed, offset[1] if offset is not None else "0", sizes, expression
        )

    @property
    def count(self) -> int | None:
        """Number of iterations of its loops; None if a size is symbolic."""
        sizes = all_whole(self.sizes)
        if sizes is None:
            return None
        return prod(sizes)

    @property
    def is_in_order(self) -> bool:
        """Whether its loops read consecutive elements: ``8192*i0 + i1, (2,
        8192)``."""
        sizes = all_whole(self.sizes)
        if sizes is None:
            return False
        terms, stride = set(), 1
        for number in reversed(range(len(sizes))):
            terms.add(f"i{number}" if stride == 1 else f"{stride}*i{number}")
            stride *= sizes[number]
        return set(self.expression.split(" + ")) == terms

    def strides(self) -> list[int] | None:
        """Stride of each loop in elements, 0 for a loop that the expression does
        not depend on; None if the expression is no sum of loops with integer
        strides."""
        strides = [0] * len(self.sizes)
        for term in self.loops.split(" + "):
            stride, _, variable = term.rpartition("*")
            number, step = whole_number(variable[1:]), whole_number(stride or "1")
            if number is None or number >= len(strides) or step is None:
                return None
            strides[number] = step
        return strides

    @property
    def is_broadcast(self) -> bool:
        """Whether a loop that it does not depend on reads each element again."""
        return len(set(_VARIABLE.findall(self.expression))) < len(self.sizes)


_COMPUTED = re.compile(r"\b(?:tmp|indirect)\d+\b")


def is_computed(index: str) -> bool:
    """True if an index expression contains a value that the loops compute: ``8*tmp0
    + c0, (64,)``."""
    return _COMPUTED.search(index) is not None


def reduces_before_the_last(index: str, sizes: str) -> bool:
    """True if loops of these sizes (``((64,), (2048,))``, reduced dimensions last)
    read the elements of a buffer in another order than memory order, because the
    reduced dimensions have larger strides than the kept ones.

    Batch normalisation in training is such a case. False where it is not known.
    """
    access, groups = _Index.of(index.split("; ")[0]), _GROUPS.fullmatch(sizes)
    if access is None or groups is None:
        return False
    kept, reduced = (
        prod(all_whole(_WHOLE.findall(group)) or ()) for group in groups.groups()
    )
    strides, lengths = access.strides(), all_whole(access.sizes)
    if reduced == 1 or strides is None or lengths is None:
        return False
    outer = None
    for n in range(len(lengths) + 1):
        if prod(lengths[:n]) == kept:
            outer = n
            break
    if outer is None or prod(lengths[outer:]) != reduced:
        return False
    of_kept = [stride for stride in strides[:outer] if stride]
    return bool(of_kept) and max(strides[outer:]) > min(of_kept)


_GROUPS = re.compile(r"\((\(.*?\)|\d+), (\(.*?\)|\d+)\)")
"""The sizes of a node's loops: for C++ ``((64,), (2048,))``, for Triton their
products ``(64, 2048)``."""
_WHOLE = re.compile(r"\d+")


def difference_between(first: str, second: str) -> AccessDifference:
    """The difference between two index expressions of one buffer, in the form of
    ``Access.index``. Names of variables do not count; of several expressions (``d0,
    (64); d0 + 64, (64)``) a common one is no difference."""
    pairs = []
    for one in first.split("; "):
        for other in second.split("; "):
            pairs.append((one, other))
    differences = []
    for one, other in pairs:
        differences.append(_between(_Index.of(one), _Index.of(other)))
    if AccessDifference.UNKNOWN in differences:
        return AccessDifference.UNKNOWN
    return differences[0]


MOST_INDICES = 4
"""Most index expressions of a node on a buffer that a record holds."""
_MOST_STEPS = 1000


@lru_cache(maxsize=4096)
def share_no_element(first: str, second: str) -> bool:
    """True if two nodes use disjoint elements of one buffer, by their index
    expressions in the form of ``Access.index``; False if that is not known."""
    one, other = first.split("; "), second.split("; ")
    if max(len(one), len(other)) >= MOST_INDICES:
        return False  # there may be more
    for a in one:
        for b in other:
            if not _are_disjoint(_Index.of(a), _Index.of(b)):
                return False
    return True


def _are_disjoint(one: _Index | None, other: _Index | None) -> bool:
    terms: dict[int, tuple[int, int]] = {}
    """Stride -> least and largest difference in iterations between the first node's
    loops and the second's."""
    for index, sign in ((one, 1), (other, -1)):
        strides = index.strides() if index is not None else None
        lengths = all_whole(index.sizes) if index is not None else None
        if strides is None or lengths is None:
            return False
        for stride, length in zip(strides, lengths):
            least, most = terms.get(stride, (0, 0))
            turns = sign * (length - 1)
            terms[stride] = (least + min(turns, 0), most + max(turns, 0))
    assert one is not None and other is not None
    offsets = all_whole((one.offset, other.offset))
    if offsets is None:
        return False
    between = offsets[1] - offsets[0]
    terms.pop(0, None)
    return not _reaches(between, sorted(terms.items(), reverse=True), [_MOST_STEPS])


def _reaches(
    distance: int, terms: Sequence[tuple[int, tuple[int, int]]], steps: list[int]
) -> bool:
    """True if whole iterations of these loops can add up to a distance, also if the
    search is stopped because it takes too long."""
    steps[0] -= 1
    if not terms or steps[0] < 0:
        return distance == 0 or steps[0] < 0
    (stride, (least, most)), *rest = terms
    low = sum(step * bounds[0] for step, bounds in rest)
    high = sum(step * bounds[1] for step, bounds in rest)
    first, last = (
        max(least, -((high - distance) // stride)),
        min(most, (distance - low) // stride),
    )
    return any(
        _reaches(distance - stride * turns, rest, steps)
        for turns in range(first, last + 1)
    )


def _between(one: _Index | None, other: _Index | None) -> AccessDifference:
    if one is None or other is None:
        return AccessDifference.UNKNOWN
    if one.is_broadcast != other.is_broadcast:
        return AccessDifference.BROADCAST
    if (
        one.count is not None
        and other.count is not None
        and one.count != other.count
    ):
        return AccessDifference.COUNT
    if one.expression != other.expression:
        return _of_expressions(one, other)
    if one.offset != other.offset:
        return AccessDifference.PART
    if one.sizes == other.sizes:
        return AccessDifference.UNKNOWN
    return AccessDifference.COUNT


def _of_expressions(one: _Index, other: _Index) -> AccessDifference:
    if not (one.is_in_order and other.is_in_order):
        return AccessDifference.ORDER
    if one.offset == other.offset:
        return AccessDifference.LOOPS
    return AccessDifference.PART
