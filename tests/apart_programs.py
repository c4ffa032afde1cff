"""Programs in which two nodes stay apart, one for each cause that a program on the CPU can have, and each
with the change that the cause names. ``apart`` is compiled to two nodes or more that share a tensor, ``one``
to one node.
"""

from __future__ import annotations

import sys

import torch

# mypy: disable-error-code="no-untyped-def"


@torch.library.custom_op("fusiondoc_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class FD261:
    """An operator of torch instead of a custom one."""

    def apart(x):
        return twice(x.sin()) + 1

    def one(x):
        return (x.sin() * 2) + 1


class FD262:
    """The same slice in both."""

    def apart(x):
        return x[:, :48] * 2, x[:, 48:] * 3

    def one(x):
        return x[:, :48] * 2, x[:, :48] * 3


class FD263:
    """Reduce over the dimensions of the other."""

    def apart(x):
        return x.sum(1), x.view(-1).exp()

    def one(x):
        return x.sum(1), x.exp().sum(1)


class FD264:
    """No flip in the middle of the chain."""

    def apart(x):
        y = x.sum(1)
        return y.flip(0) + y

    def one(x):
        y = x.sum(1)
        return y.exp() + y


class FD265:
    """No product of matrices between the two."""

    def apart(x):
        y = x.softmax(1)
        return (y @ y.t()).sum(1, keepdim=True) + y

    def one(x):
        y = x.softmax(1)
        return (y * y).sum(1, keepdim=True) + y


class FD267:
    """Reduce over the same dimension."""

    def apart(x):
        return x.sum(), (x + 1).amax(1)

    def one(x):
        return x.sum(1), (x + 1).amax(1)


class FD273:
    """Fewer nodes."""

    def apart(x):
        parts = []
        for number in range(70):
            x = torch.sin(x) + number
            parts.append(x)
        return parts

    def one(x):
        parts = []
        for number in range(30):
            x = torch.sin(x) + number
            parts.append(x)
        return parts


class FD277:
    """No graph break between the two."""

    def apart(x):
        y = x.sin()
        print("a break")
        return y + 1

    def one(x):
        return x.sin() + 1


class FD279:
    """At most 16 nodes that only read one tensor."""

    def apart(x):
        return [(x * number).sum(1) for number in range(2, 22)]

    def one(x):
        return [(x * number).sum(1) for number in range(2, 12)]


CASES = {
    case.__name__: case
    for case in (FD261, FD262, FD263, FD264, FD265, FD267, FD273, FD277, FD279)
}


def compile_all(names, which: str, before_each) -> None:
    """Compile one of the two of these cases; ``before_each`` gets each name."""
    for name in names:
        before_each(name)
        torch.compile(getattr(CASES[name], which))(torch.randn(64, 96))


if __name__ == "__main__":
    compile_all(sys.argv[1:], "apart", lambda name: None)
