"""How a run switches a fuser on or off and makes it log: knobs, variables,
calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FallbackOff:
    """Variables that make a fuser raise an error instead of running a group as
    unfused operators. Either is enough; some versions of torch read only one."""

    options: str
    """An environment variable that lists options; ``option``: the word in it."""
    option: str
    number: str
    """An environment variable with a number that is not 0."""


@dataclass(frozen=True)
class FuserSwitches:
    """The settings of a run that concern a fuser."""

    device_knobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Type of a device -> the knobs that enable fusion there."""
    knob_for_one: str | None = None
    """The knob with its value that makes a single operator a group."""
    knob_to_leave_out: str | None = None
    """The knob that keeps operators out of its groups, with a placeholder for
    them."""
    variable_to_leave_out: str | None = None
    """The environment variable that does so, if there is no knob."""
    off_by_variable: tuple[str, str] | None = None
    """A variable and its value with which the pass does nothing, even if a program
    switches it on."""
    off_by_call: str | None = None
    """The call that switches it off in programs."""
    variables_set: tuple[str, ...] = ()
    """Its environment variables that fusiondoc sets."""
    own_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that a run under it needs beside those of its log."""
    log_level: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL. With less it prints nothing; with more the
    log grows and holds no more facts."""
    plan_log: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL with which a log holds the graphs of its
    groups."""
    refusal_log: str | None = None
    """Value of PYTORCH_JIT_LOG_LEVEL with which its pass states which operators it
    rejects, and why."""
    log_list: tuple[str, tuple[str, ...]] | None = None
    """The environment variable that selects its log messages, with the value for a
    run; None: it uses TorchScript's."""
    trace_variable: str | None = None
    """The environment variable that names a folder for its trace."""
    dump_variable: str | None = None
    """The environment variable that makes it print its kernels."""
    fallback_off: FallbackOff | None = None
    """How its fallback is switched off; None for a fuser that never falls back."""
