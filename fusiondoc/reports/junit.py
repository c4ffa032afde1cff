"""JUnit XML.

It has the form that Jenkins' xunit plugin, GitLab and pytest agree on. Each
expectation and each finding is a test case. Broken expectations and errors are
failures; warnings and notes pass, with their text as output; suppressed findings
are skipped. Servers identify a case by its name, so names contain no line of a
file.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fusiondoc.model.checked_models import CheckedModels, CheckOutcome
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.source import file_of
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.stable_names import NameCounts, without_lines
from fusiondoc.views.formatting import with_near_paths
from fusiondoc.views.losses_in_sentences import expected_and_found

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The report as one ``testsuites`` element."""
    report = with_near_paths(report)
    suites = Element("testsuites", name="fusiondoc")
    if report.expectations:
        _expectations(suites, report)
    _findings(suites, report)
    return _counted(suites)


def of_models(checked: CheckedModels) -> str:
    """Return a check of many models: each model is a suite, each expectation a
    case. A model that could not be run is an error of its suite, and a section for
    other machines is skipped."""
    suites = Element("testsuites", name="fusiondoc")
    names = _Names()
    for model in checked.models:
        suite = SubElement(suites, "testsuite", name=_clean(model.section))
        if model.report is not None:
            _cases(suite, with_near_paths(model.report), names)
            continue
        section = _clean(model.section)
        case = SubElement(
            suite, "testcase", classname=section, name=names.of(section, "run")
        )
        failed = model.outcome is CheckOutcome.FAILED
        why = _clean(model.why or model.outcome.value)
        element = SubElement(
            case, "error" if failed else "skipped", message=why[:_LONGEST]
        )
        element.text = why  # GitLab reads only the content of elements
    return _counted(suites)


_LONGEST = 300
"""Most characters of a message; the element's text has all."""


def _counted(suites: Element) -> str:
    """Return the document, with the counts of each suite."""
    for suite in suites:
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        suite.set(
            "failures", str(sum(case.find("failure") is not None for case in cases))
        )
        suite.set(
            "errors", str(sum(case.find("error") is not None for case in cases))
        )
        suite.set(
            "skipped", str(sum(case.find("skipped") is not None for case in cases))
        )
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _expectations(suites: Element, report: Report) -> None:
    _cases(SubElement(suites, "testsuite", name="expectations"), report, _Names())


def _cases(suite: Element, report: Report, names: _Names) -> None:
    for one in report.expectations:
        group = _clean(one.section or one.file)
        case = SubElement(
            suite,
            "testcase",
            classname=group,
            name=names.of(group, _clean(one.expected)),
        )
        if not one.holds:
            if one.line is not None:
                position = f"{one.file}:{one.line}"
            else:
                position = one.file
            lines = [
                *([one.source] if one.source is not None else []),
                *([position] if one.code is None else []),
            ]
            text = _clean("\n".join([*lines, expected_and_found(one)]))
            SubElement(
                case,
                "failure",
                message=_clean(expected_and_found(one)),
                type="expectation",
            ).text = text


class _Names:
    """Names of test cases, by which servers identify a case from build to build:
    without lines of files, which move. Equal names of a class are numbered in
    order."""

    def __init__(self) -> None:
        self._repeats = NameCounts()

    def of(self, group: str, name: str) -> str:
        number = self._repeats.number(group, name)
        if number == 1:
            return name
        return f"{name} ({number})"


def _findings(suites: Element, report: Report) -> None:
    suite = SubElement(suites, "testsuite", name="findings")
    name = report.target.name or "report"
    names = _Names()
    for finding in report.findings:
        group = _clean(f"{name}.{finding.code}")
        file = file_of(finding.source)
        title = without_lines(finding.message) + (f" ({file})" if file else "")
        case = SubElement(
            suite, "testcase", classname=group, name=names.of(group, _clean(title))
        )
        if finding.severity == "error":
            failure = SubElement(
                case, "failure", message=_clean(finding.message), type=finding.code
            )
            failure.text = _clean(_details(finding))
        else:
            SubElement(case, "system-out").text = _clean(_details(finding))
    for gone in report.suppressed:
        case = SubElement(
            suite,
            "testcase",
            classname=_clean(f"{name}.{gone.code}"),
            name=_clean(gone.message),
        )
        SubElement(case, "skipped", message=_clean(f"suppressed by {gone.by}"))
    if not report.findings and not report.suppressed:
        SubElement(suite, "testcase", classname=_clean(name), name="no findings")


def _details(finding: Finding) -> str:
    lines = [f"{finding.severity} {finding.code}: {finding.message}"]
    if finding.source:
        lines.append(finding.source)
    if finding.advice:
        lines.append(finding.advice)
    lines += [f"log: {one.file}:{one.line}" for one in list(finding.evidence)[:3]]
    return "\n".join(lines)


def _clean(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return visible(_NOT_XML.sub("\ufffd", text))
