"""A fuser that torch does not have, in one file: ``python toy_fuser.py`` is
``fusiondoc`` with it.

Its pass (``toy_fuser.cpp``) prints the graph that it leaves, with
``prim::ToyGroup`` nodes, and two messages on nodes that it does not take.
"""

from __future__ import annotations

import re

from fusiondoc.fusers import register
from fusiondoc.fusers.dump_kind import COMPILE, DumpKind, sections
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog, Refusals
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.taken_operators import TakenOperators

TOY = Fuser(
    name="toy",
    title="the toy fuser",
    kinds=("ToyGroup", "ToyLibraryCall"),
    operators=TakenOperators(
        takes=frozenset(
            ("aten::mul", "aten::add", "aten::relu", "aten::tanh", "aten::cumsum")
        ),
    ),
    limits=FuserLimits(
        most_dimensions=2,
    ),
    log=FuserLog(
        pass_start="Before ToyFuser:",
        plan_header="After ToyFuser:",
        guards=frozenset(("prim::ToyGuard",)),
        signs=(b"Toy plan {",),
        dump_kinds=(
            DumpKind(
                "toy_plan",
                COMPILE,
                b"T",
                rb"Toy plan \{$",
                sections(main=rb"(?P<end>\}$)|  \S"),
            ),
        ),
        refusals=Refusals(
            file="toy_fuser",
            mark=b"skipping node",
            form=re.compile(rb"skipping node \((.+?)\): (.*)", re.S),
            causes={
                b"no kernel": ("FD201", "toy_no_kernel"),
                b"too many dims": ("FD203", "toy_dimensions"),
            },
            other="FD201",
        ),
    ),
    words=FuserWords(
        conditions={
            "toy_no_kernel": "the toy fuser has no kernel for it",
            "toy_dimensions": "the toy fuser takes at most two dimensions",
        },
    ),
)

if __name__ == "__main__":
    register(TOY)
    from fusiondoc.cli import main

    main()
