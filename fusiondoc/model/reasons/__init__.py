"""Why an operator is in no group, as data: the closed family of details that a
reason holds.

Rules create a detail; advice, changes and joins read it; ``words`` makes its
sentence. In JSON a detail is an object with its ``kind`` and its fields. Source
positions are as the log prints them.
"""

from __future__ import annotations

from fusiondoc.model.reasons.of_inductor import (
    CompiledCall,
    SharedAccess,
    StayedApart,
)
from fusiondoc.model.reasons.of_operator import (
    AbsentGradients,
    Argument,
    ControlFlow,
    Dimensions,
    FullGroup,
    InPlace,
    NewerRule,
    NoRule,
    NotConstant,
    NothingToGain,
    NotKnown,
    NotOptimised,
    Overload,
    PythonCall,
    ReductionsOff,
    Refusal,
    Unprofiled,
    WithBlock,
    WritesOut,
    WrongDevice,
    WrongType,
)
from fusiondoc.model.reasons.of_regions import (
    AloneInRegion,
    DissolvedRegion,
    OutOfRegion,
    SmallRegion,
)
from fusiondoc.model.reasons.of_surroundings import (
    Alone,
    Barrier,
    BehindViews,
    DecidesBetween,
    Detour,
    EndedInPlace,
    NewerNeighbour,
    OtherBlock,
    SideEffect,
    WhyBarrier,
    WriteBetween,
)
from fusiondoc.model.reasons.of_te import (
    MissingNeighbours,
    MissingSide,
    NotInPattern,
    UnmetCondition,
    UnmetConditions,
)
from fusiondoc.model.reasons.parts import (
    Condition,
    Container,
    FormulaGap,
    OperatorAt,
    RegionDetour,
    RegionEnd,
    Side,
)
from fusiondoc.model.reasons.stated import (
    Stated,
)

__all__ = [
    "AbsentGradients",
    "Alone",
    "AloneInRegion",
    "Argument",
    "Barrier",
    "BehindViews",
    "CompiledCall",
    "Condition",
    "Container",
    "ControlFlow",
    "DecidesBetween",
    "Detail",
    "Detour",
    "Dimensions",
    "DissolvedRegion",
    "EndedInPlace",
    "FormulaGap",
    "FullGroup",
    "InPlace",
    "MissingNeighbours",
    "MissingSide",
    "NewerNeighbour",
    "NewerRule",
    "NoRule",
    "NotConstant",
    "NotInPattern",
    "NotKnown",
    "NotOptimised",
    "NothingToGain",
    "OperatorAt",
    "OtherBlock",
    "OutOfRegion",
    "Overload",
    "PythonCall",
    "ReductionsOff",
    "Refusal",
    "RegionDetour",
    "RegionEnd",
    "SharedAccess",
    "Side",
    "SideEffect",
    "SmallRegion",
    "Stated",
    "StayedApart",
    "UnmetCondition",
    "UnmetConditions",
    "Unprofiled",
    "WhyBarrier",
    "WithBlock",
    "WriteBetween",
    "WritesOut",
    "WrongDevice",
    "WrongType",
]

Detail = (
    NoRule
    | NewerRule
    | PythonCall
    | Overload
    | ReductionsOff
    | NotConstant
    | Argument
    | WrongType
    | WrongDevice
    | Dimensions
    | ControlFlow
    | WithBlock
    | AbsentGradients
    | NothingToGain
    | InPlace
    | WritesOut
    | FullGroup
    | Unprofiled
    | NotOptimised
    | NotKnown
    | NewerNeighbour
    | Barrier
    | BehindViews
    | OtherBlock
    | Alone
    | EndedInPlace
    | DecidesBetween
    | Detour
    | SideEffect
    | WriteBetween
    | OutOfRegion
    | AloneInRegion
    | SmallRegion
    | DissolvedRegion
    | Stated
    | UnmetConditions
    | NotInPattern
    | CompiledCall
    | StayedApart
)
"""The union of all details: every reason has one of them."""
