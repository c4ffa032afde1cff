"""JUnit XML, in the form that Jenkins' xunit plugin, GitLab and pytest agree on.

An expectation is a test case, and so is a finding. Broken expectations and errors are failures; warnings and
notes pass and say what they are; suppressed findings are skipped.
"""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fusiondoc.model.report import Finding, Report
from fusiondoc.reports.printable import visible
from fusiondoc.reports.source_code import with_near_paths
from fusiondoc.reports.text.findings import sentence

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The report as one ``testsuites`` element."""
    report = with_near_paths(report)
    suites = Element("testsuites", name="fusiondoc")
    if report.expectations:
        _expectations(suites, report)
    _findings(suites, report)
    for suite in suites:
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    if sys.version_info >= (3, 9):
        ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _expectations(suites: Element, report: Report) -> None:
    suite = SubElement(suites, "testsuite", name="expectations")
    for one in report.expectations:
        place = f"{one.file}:{one.line}" if one.line is not None else one.file
        case = SubElement(
            suite,
            "testcase",
            classname=_clean(one.section or one.file),
            name=_clean(f"{one.expected} ({place})"),
        )
        if not one.holds:
            SubElement(case, "failure", message=_clean(sentence(one)), type="expectation").text = _clean(
                f"{place}\n{sentence(one)}"
            )


def _findings(suites: Element, report: Report) -> None:
    suite = SubElement(suites, "testsuite", name="findings")
    name = report.target.name or "report"
    for finding in report.findings:
        title = finding.message + (f" ({finding.source})" if finding.source else "")
        case = SubElement(suite, "testcase", classname=_clean(f"{name}.{finding.code}"), name=_clean(title))
        if finding.severity == "error":
            failure = SubElement(case, "failure", message=_clean(finding.message), type=finding.code)
            failure.text = _clean(_details(finding))
        else:
            SubElement(case, "system-out").text = _clean(_details(finding))
    for gone in report.suppressed:
        case = SubElement(
            suite, "testcase", classname=_clean(f"{name}.{gone.code}"), name=_clean(gone.message)
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
    """Without the characters that XML cannot hold."""
    return visible(_NOT_XML.sub("\ufffd", text))
