"""What finding codes are about: their families, what is lost, and what keeps an
operator out of groups."""

from __future__ import annotations

from enum import Enum


class Family(Enum):
    """What a finding is about: the first digit of its code."""

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
    """What is lost because an operator is in no group."""

    RESULT = "its result is written to memory and read again"
    AROUND = "nothing of its own, but what is around it is cut apart"
    NONE = "nothing"


class Cause(Enum):
    """What keeps an operator out of groups."""

    OPERATOR = "itself"
    """So it can be a barrier for others."""
    SETTING = "a device, a profile or a setting"
    """No change of a neighbour takes it away."""
    NEIGHBOUR = "what is around it"
