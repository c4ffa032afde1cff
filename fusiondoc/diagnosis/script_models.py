"""From what was recorded of a program that ran as it is to the report: which groups are in which of its
models."""

from __future__ import annotations

from fusiondoc.captures.script_records import RanInstead, ScriptedModel, ScriptRecords, StepsTaken
from fusiondoc.model.report import Report
from fusiondoc.model.scripts import ScriptModel, ScriptRun


def script_run(records: ScriptRecords, report: Report, reached: bool) -> ScriptRun | None:
    """What the program did; None where nothing was recorded.

    Args:
        reached: the log tells of a plan or a profile.
    """
    if records.instead is None:
        return None
    steps, instead = records.steps or StepsTaken(), records.instead or RanInstead()
    only = len(records.models) == 1
    return ScriptRun(
        models=tuple(_model(one, report, only) for one in records.models),
        steps=steps.count,
        step_by=steps.by,
        compiled_frames=instead.frames,
        compiled_graphs=instead.graphs,
        inductor_kernels=instead.kernels,
        reached=reached,
    )


def _model(told: ScriptedModel, report: Report, only: bool) -> ScriptModel:
    prefix = told.name.replace(".", "_")

    def is_in(layer: str | None) -> bool:
        return only or (layer is not None and (layer == prefix or layer.startswith(prefix + ".")))

    groups = [group.id for group in report.groups if any(is_in(one.layer) for one in group.instances)]
    outside = 0
    for row in report.unfused:
        if only:
            outside += row.count
        else:
            outside += sum(count for layer, count in zip(row.layers, row.layer_counts) if is_in(layer))
    return ScriptModel(told.name, told.how, told.at, told.count, told.planned, tuple(groups), outside)
