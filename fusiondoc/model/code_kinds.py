"""Properties of finding codes: the family, the loss, and the cause that keeps an
operator out of groups."""

from __future__ import annotations

from enum import Enum


class Family(Enum):
    """The subject of a finding: the first digit of its code."""

    ENVIRONMENT = "0"
    """The environment and knobs."""
    RUNS = "1"
    """Nothing to fuse yet: runs, profiling, autodiff."""
    NODE = "2"
    """An operator that is not fused."""
    FAILURE = "3"
    """Fallback, guard and crash."""
    KERNEL = "4"
    """The speed of kernels."""
    MODEL = "5"
    """Speed and numbers of the whole model."""
    LOG = "9"
    """The log itself."""


class Loss(Enum):
    """The loss from an operator that is in no group."""

    RESULT = "its result is written to memory and read again"
    AROUND = "nothing of its own, but what is around it is cut apart"
    NONE = "nothing"


class Cause(Enum):
    """The cause that keeps an operator out of groups."""

    OPERATOR = "itself"
    """The operator itself, so that it can be a barrier for others."""
    SETTING = "a device, a profile or a setting"
    """No change of a neighbour removes it."""
    NEIGHBOUR = "what is around it"
