"""The section with the picture of the programs: selector, filter by reason, picture, details."""

from __future__ import annotations

from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.markup import Markup, data_script, el
from fusiondoc.reports.html.parts import section
from fusiondoc.reports.html.picture import main_program, pictures, title
from fusiondoc.reports.wording import count


def program_view(context: Context) -> Markup | None:
    """None where the log shows no plan."""
    report = context.report
    if not report.programs:
        return None
    figures, data = pictures(context)
    first = main_program(report)
    options = [
        el("option", title(program), value=program.id, selected=program.id == first)
        for program in report.programs
    ]
    choose = el(
        "p", el("label", "Program", for_="choose"), el("select", *options, id="choose"), class_="field"
    )
    buttons = [
        el("button", text, type="button", id=f"zoom-{name}", aria_label=label)
        for name, text, label in (
            ("out", "−", "Smaller"),
            ("in", "+", "Larger"),
            ("fit", "Fit", "Fit the width"),
        )
    ]
    zoom = el("p", *buttons, class_="zoom", role="group", aria_label="Size of the picture")
    hint = (
        "Boxes with a thick edge are fusion groups; the others stand outside. Click a box, or move with the "
        "arrow keys and press Enter, for its source line, IR, types and what the log says."
    )
    left = report.programs_left_out
    return section(
        "program",
        "Program",
        el("div", choose, zoom, class_="tools", data_js=True),
        _filter(context),
        el("p", "", id="matches", class_="muted", role="status"),
        el(
            "div",
            el("div", figures, class_="canvas", id="canvas", tabindex="-1"),
            el(
                "aside",
                el("h3", "Details", id="details-title", tabindex="-1", aria_live="polite"),
                el("div", el("p", "Nothing chosen yet.", class_="muted"), id="details"),
                class_="details",
                aria_labelledby="details-title",
                data_js=True,
            ),
            class_="split",
        ),
        el("p", f"{count(left, 'further plan')} left out; the log has them.", class_="note")
        if left
        else None,
        data_script("programs", data),
        note=hint,
    )


def _filter(context: Context) -> Markup | None:
    if not context.reasons:
        return None
    chips = [_chip("", "all", "Everything", None), _chip("fused", "fused", "Groups", None)]
    for reason in context.reasons:
        text = f"{reason.code} ×{reason.count:,}"
        chips.append(_chip(reason.code, reason.hue, text, reason.text))
    legend = el("legend", "Show")
    return el("fieldset", legend, *chips, class_="chips", id="filter", data_js=True)


def _chip(value: str, hue: str, text: str, long: str | None) -> Markup:
    choice = el("input", type="radio", name="reason", value=value, checked=not value)
    words = [el("span", text), el("small", long) if long else None]
    return el("label", choice, *words, class_=f"chip {hue}")
