"""What a program that ran as it is reached, in words."""

from __future__ import annotations

from fusiondoc.model.report import Report
from fusiondoc.model.scripts import ScriptModel, ScriptRun
from fusiondoc.reports.source_code import near
from fusiondoc.reports.wording import count

_MOST_MODELS = 20


def _model_line(one: ScriptModel) -> str:
    """``Block x2: scripted in train.py:32, groups G1, G3; 4 operators outside``."""
    times = f" x{one.count}" if one.count > 1 else ""
    where = f" in {near(one.at)}" if one.at else ""
    if one.groups:
        listed = ", ".join(one.groups[:6]) + (
            f" and {len(one.groups) - 6} more" if len(one.groups) > 6 else ""
        )
        became = f"group{'s' * (len(one.groups) > 1)} {listed}"
    elif one.planned is False:
        became = "no plan was made of it: it was never called, or too few times"
    else:
        became = "no group"
    outside = f"; {count(one.operators_outside, 'operator')} outside" if one.operators_outside else ""
    return f"{one.name}{times}: {one.how}{where}, {became}{outside}"


def lines(report: Report) -> list[str]:
    """A line for each model, and one for the rest; none of a run that was no program's."""
    run = report.script
    if run is None or not run.reached:
        return []
    more = len(run.models) - _MOST_MODELS
    made = [_model_line(one) for one in run.models[:_MOST_MODELS]]
    made += [f"... {more} more models: --format json has all"] if more > 0 else []
    return made + list(filter(None, (_rest(run),)))


def _rest(run: ScriptRun) -> str | None:
    said = []
    if run.steps:
        said.append(f"{count(run.steps, 'step')} ({run.step_by})")
    if run.compiled_graphs:
        said.append(
            f"torch.compile made {count(run.compiled_graphs, 'graph')}, which no fuser of TorchScript sees"
        )
    return "; ".join(said) or None
