"""The figures of a report in the text format of OpenMetrics 1.0, which Prometheus reads."""

from __future__ import annotations

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
}
"""Name in ``Report.metrics`` -> help text."""

_LABELS = ("torch", "gpu", "commit")
"""Keys of the environment that are labels, where the report has them."""


def render(report: Report) -> str:
    """Every figure as a gauge, with model, fuser, torch, gpu and commit as labels, where they are known."""
    report = with_near_paths(report)
    labels = _labels(report)
    lines = []
    for name, value in report.metrics().items():
        family = f"fusiondoc_{name}"
        lines += [f"# TYPE {family} gauge", f"# HELP {family} {_MEANINGS[name]}"]
        lines.append(f"{family}{labels} {value}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(report: Report) -> str:
    known = {
        "model": report.target.model or report.target.name,
        "fuser": report.fuser.effective,
        **{name: report.environment.get(name) for name in _LABELS},
    }
    given = [f'{name}="{_escaped(value)}"' for name, value in known.items() if value]
    return "{" + ",".join(given) + "}" if given else ""


def _escaped(value: str) -> str:
    """As the format wants it; what is not UTF-8 in a name of a file as its escape."""
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
