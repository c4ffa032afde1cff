"""Names in reports for Inductor's groups, and the kinds of its reasons: of calls, of
causes that keep two nodes apart, and of different accesses."""

from enum import Enum

NAME = "inductor"

KIND = "Inductor"
"""How ``Group.kind`` of its groups begins; Triton, Cpp, Template, Foreach,
MixedOrder or Library follows, or nothing if the language is not in the log."""


class CallKind(Enum):
    """Why an operator is a call and not a loop of a kernel."""

    LIBRARY = "library"
    """A library computes it: mm, addmm, bmm, convolution."""
    NO_LOWERING = "no lowering"
    """FallbackKernel: Inductor has neither a lowering nor a decomposition."""
    ON_PURPOSE = "on purpose"
    """FallbackKernel of an operator that Inductor leaves to eager code on purpose
    (``make_fallback``)."""
    CUSTOM = "custom"
    """An operator of the program or of another library."""
    USER_TRITON = "user's Triton kernel"
    RANDOM_SEED = "random seed"
    VIEW = "view"
    """``view_as_real`` and the like: it moves nothing."""
    COLLECTIVE = "collective"
    COPY = "copy"
    """An eager copy of the wrapper."""
    EAGER_SUM = "eager sum"
    """The sum of a mixed-order reduction's workspace, which the wrapper runs in
    eager."""
    UNKNOWN = "unknown"


class ApartCause(Enum):
    """Why two nodes that share a tensor were not fused. In the order of their
    finding codes, FD261 and up."""

    CALL = "call"
    """One of the two is a call and no loop."""
    ACCESS = "access"
    """They read the tensor in different orders, or different parts of it."""
    SIZES = "sizes"
    """Their loops have different sizes."""
    ELEMENTS = "elements"
    """In the same loop iteration, the second reads other elements than the first
    writes."""
    BETWEEN = "between"
    """A node that cannot be fused is between them."""
    SPLIT_REDUCTION = "split reduction"
    """A reduction runs in two stages."""
    REDUCTIONS = "reductions"
    """They reduce over different dimensions or sizes."""
    TILING = "tiling"
    """Their loops are tiled differently."""
    TEMPLATE = "template"
    """A template of a matrix product or a convolution does not accept the other
    node."""
    USER_KERNEL = "user kernel"
    """One of the two is a Triton kernel of the program."""
    MUTATION = "mutation"
    """A tensor is changed in place, or shares memory."""
    DEVICE = "device"
    """They run on different devices or streams."""
    TOO_LARGE = "too large"
    """Together they have more nodes, or tensors, than a kernel may have."""
    MEMORY = "memory"
    """By Inductor's estimate the kernel would need more memory at the peak."""
    SLOWER = "slower"
    """The kernel was measured, and it was slower than the two."""
    GROUPED = "grouped"
    """Grouped nodes, or nodes of foreach operators, accept no others."""
    OTHER_GRAPH = "other graph"
    """They are in different graphs: no pass of the compiler saw both."""
    OTHER = "other"
    """Torch states a reason that this version does not know."""
    UNSTATED = "unstated"
    """Torch refused without a text, or never tried the two."""


class AccessDifference(Enum):
    """The difference in how two nodes use the elements of one buffer: the meaning
    of "no shared data"."""

    ORDER = "order"
    """They use the elements in different orders."""
    REDUCTION = "reduction"
    """They use them in different orders, because one reduces over dimensions other
    than the last."""
    WINDOWS = "windows"
    """One reads windows of it, as a pooling does."""
    COMPUTED = "computed"
    """One uses elements at indices that it computes from a tensor, as indexing
    does."""
    LOOPS = "loops"
    """They use them in the same order, in loops of different sizes: 16384 elements,
    and 2 times 8192."""
    PART = "part"
    """They use different parts of it: the offsets differ."""
    DISJOINT = "disjoint"
    """They use parts of it that have no element in common: nothing is read
    twice."""
    COUNT = "count"
    """They use different numbers of elements."""
    BROADCAST = "broadcast"
    """One of them uses each element several times."""
    OPAQUE = "opaque"
    """One of them uses it in a way that has no index expression."""
    UNKNOWN = "unknown"
    """Torch's own comparison finds no difference that it can name."""
