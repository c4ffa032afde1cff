"""Environment variables that change fusion or the output about it, and their
possible words. Variables of one fuser are in the fuser's folder; this file has
those of torch's JIT.

Variables are from the names that each release wheel reads (1.11.0 to 2.1.2 and
2.13.0).
"""

from __future__ import annotations

from fusiondoc.fusers import FUSERS
from fusiondoc.fusers.knob_rows import FuserDump, Option, Variable, variables

_OF_JIT: tuple[Variable, ...] = (
    *variables(
        "1.11-2.13",
        (
            "PYTORCH_JIT_LOG_LEVEL",
            "FILE:>FILE:>>FILE",
            "",
            "Which files of torch write to the JIT log, and how much.",
            "torch/csrc/jit/jit_log.cpp",
        ),
        (
            "PYTORCH_JIT_TYPE_VERBOSITY",
            "0 to 4",
            "3",
            "How much of a type is printed in graphs; below 3 a log lacks shapes or strides.",
            "torch/csrc/jit/ir/ir.cpp",
        ),
        (
            "PYTORCH_JIT_OPT_LIMIT",
            "FILE=N:FILE=N",
            "",
            "Stops a pass after N changes; for finding the change that breaks a model.",
            "torch/csrc/jit/jit_opt_limit.cpp",
        ),
        (
            "PYTORCH_JIT",
            "0 or 1",
            "1",
            "0 turns scripting and tracing off: everything runs eagerly.",
            "torch/jit",
        ),
    ),
)


def _newest_first(variable: Variable) -> tuple[int, int]:
    """Sort key: by the last version that reads a variable; variables that no
    release reads are last."""
    major, minor = max((known.last for known in variable.live), default=(0, 0))
    return -major, -minor


VARIABLES: tuple[Variable, ...] = tuple(
    sorted(
        (
            *_OF_JIT,
            *(
                row
                for fuser in FUSERS.values()
                for row in fuser.catalogue.variables
            ),
        ),
        key=_newest_first,
    )
)

OPTIONS: dict[str, tuple[Option, ...]] = {
    variable: options
    for fuser in FUSERS.values()
    for variable, options in fuser.catalogue.options.items()
}
"""Variable -> the options that may be listed in it."""

PACKAGE_OPTIONS: dict[str, frozenset[str]] = {
    variable: words
    for fuser in FUSERS.values()
    for variable, words in fuser.catalogue.package_options.items()
}
"""Variable of a stand-alone package -> its words."""

FUSER_DUMPS: tuple[FuserDump, ...] = tuple(
    dump for fuser in FUSERS.values() for dump in fuser.catalogue.dumps
)
