"""The figures of a report, or of a check of many models, in the text format of
OpenMetrics 1.0, which Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusiondoc.model.checked_models import CheckedModels, CheckOutcome
from fusiondoc.model.report import Report
from fusiondoc.views.formatting import with_near_paths

_MEANINGS = {
    "groups": "Fusion groups in the plans of the run.",
    "groups_forward": "Fusion groups of the forward pass.",
    "groups_backward": "Fusion groups of the backward pass.",
    "operators_fused": "Operators in fusion groups.",
    "operators_unfused": "Tensor operators outside every fusion group.",
    "coverage": "Share of the operators in groups among those that the fuser can take.",
    "fallbacks": "How often fusion groups fell back to unfused operators.",
    "kernels": "Generated kernels.",
    "unfused_bytes": "Memory traffic of a run that fusing the operators outside groups can save.",
    "step_ms": "Milliseconds of a profiled step.",
    "device_ms": "Milliseconds of a profiled step in which the device was busy.",
    "findings_error": "Findings of severity error.",
    "findings_warning": "Findings of severity warning.",
    "expectations_broken": "Expectations of fusiondoc check that do not hold.",
    "exit_status": "Exit status of fusiondoc check for the model: 0 if all its expectations hold.",
}
"""Name in ``Report.metrics``, or ``exit_status`` of a model in a check of many ->
help text."""

_LABELS = ("torch", "gpu", "commit")
"""Keys of the environment that are labels, if the report has them."""


def render(report: Report) -> str:
    """Return every figure as a gauge, with model, fuser, torch, gpu and commit as
    labels, as far as they are known."""
    report = with_near_paths(report)
    return _families(
        {
            _labels(
                report, report.target.model or report.target.name
            ): report.metrics()
        }
    )


def of_models(checked: CheckedModels) -> str:
    """Return the figures of all models that were checked, with the names of their
    sections as labels, and the exit status of each, also of a model that failed."""
    figures: dict[str, Mapping[str, float]] = {}
    times: dict[str, int] = {}
    for model in checked.models:
        if model.outcome in (CheckOutcome.NOT_RUN, CheckOutcome.UNCHANGED):
            continue
        nth = times[model.section] = times.get(model.section, 0) + 1
        name = model.section if nth == 1 else f"{model.section} ({nth})"
        found = model.report.metrics() if model.report is not None else {}
        figures[_labels(model.report, name, checked.commit)] = {
            **found,
            "exit_status": model.exit_status,
        }
    return _families(figures)


def _families(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the figures by labels: all samples of a name in one block, as the
    format requires."""
    return "\n".join([*_lines(figures), "# EOF"]) + "\n"


def _lines(figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for name, meaning in _MEANINGS.items():
        family = f"fusiondoc_{name}"
        samples = []
        for labels, found in figures.items():
            if name in found:
                samples.append(f"{family}{labels} {found[name]}")
        if samples:
            yield f"# TYPE {family} gauge"
            yield f"# HELP {family} {meaning}"
            yield from samples


def _labels(
    report: Report | None, model: str | None, commit: str | None = None
) -> str:
    environment = report.environment if report is not None else {}
    known = {
        "model": model,
        "fuser": report.fuser.effective if report is not None else None,
        **{name: environment.get(name) for name in _LABELS},
    }
    known["commit"] = known["commit"] or commit
    given = []
    for name, value in known.items():
        if value:
            given.append(f'{name}="{_escaped(value)}"')
    if given:
        return "{" + ",".join(given) + "}"
    return ""


def _escaped(value: str) -> str:
    """Return a label's value escaped as the format requires; bytes of a file name
    that are not UTF-8 become escapes."""
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
