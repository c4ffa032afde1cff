"""The details that a page shows of a selected node of a picture: its source line,
its types, why it is in no group, the advice, and the lines of the log."""

from __future__ import annotations

from itertools import islice
from typing import Any

from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons import Detail
from fusiondoc.model.remedies import Nothing
from fusiondoc.model.report import Evidence, Finding, Program, ProgramNode, Unfused
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.rendering.printable import visible
from fusiondoc.views.report_context import QUOTED, ReportContext, shown


class NodeData:
    """Details of the nodes of all programs of a page. Each text is stored once and
    referred to by its number."""

    def __init__(self, context: ReportContext) -> None:
        self._context = context
        self._texts: dict[str, int] = {}
        self._programs: dict[str, list[list[Any]]] = {}
        self._shown_rows: dict[int | None, int] = {}
        """``Unfused.index`` of a row -> its index in ``_reasons``."""
        self._reasons: list[list[Any]] = []
        self._unfused = rows_by_index(context.report)
        self._advice: dict[int, str] = {}
        """``Unfused.index`` -> the advice of the finding on that row."""
        self._advice_alike: dict[tuple[str, str, Detail | None], str] = {}
        """Operator, code and detail of the reason (None for any) -> the advice on
        the first row with these."""
        self._folded: dict[tuple[str, bool], str] = {}
        """Operator, and whether it is in one of torch's formulas -> the advice of
        the note on operators that nobody can change."""
        for finding in context.report.findings:
            self._add_advice(finding)

    def add(self, program: Program) -> None:
        self._programs[visible(program.id)] = [
            self._node(program, node) for node in program.nodes
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "texts": list(self._texts),
            "programs": self._programs,
            "reasons": self._reasons,
        }

    def _text(self, text: str | None) -> int:
        if text:
            return self._texts.setdefault(visible(text), len(self._texts))
        return -1

    def _node(self, program: Program, node: ProgramNode) -> list[Any]:
        """Return the values in the order in which page.js reads them."""
        if node.group is not None:
            return [self._text(node.group)]
        evidence = node.evidence[0] if node.evidence else None
        inside = program.nodes[node.inside] if node.inside is not None else None
        return [
            -1,
            self._text(node.op),
            self._text(shown(node.source)),
            self._text(shown(node.user_source)),
            self._text(self._context.code_at(node.user_source)),
            self._reason(node),
            self._text(node.condition),
            self._text(
                f"{inside.op} at {shown(inside.user_source or inside.source)}"
                if inside
                else None
            ),
            [self._text(text) for text in node.inputs],
            [self._text(text) for text in node.outputs],
            self._text(self._context.position(evidence) if evidence else None),
            self._text(self._printed(evidence)),
            self._text(node.program),
        ]

    def _printed(self, evidence: Evidence | None) -> str | None:
        """Return the line of the log, as long as the page has room."""
        text = self._context.excerpt(evidence) if evidence is not None else None
        if text is not None and self._context.takes_room(len(text)):
            return text
        return None

    def _add_advice(self, finding: Finding) -> None:
        """Index the advice of a finding. One note covers all lines of torch's own
        formulas, and one all kernels of libraries."""
        if finding.advice is None:
            return
        if finding.code == "FD236":
            formulas = (
                finding.remedy is not None
                and finding.remedy.nothing is Nothing.FORMULAS
            )
            for op in finding.ops:
                self._folded.setdefault((op, formulas), finding.advice)
        for index in finding.rows:
            self._advice.setdefault(index, finding.advice)
            row = self._unfused.get(index)
            if row is None:
                continue  # equal to a row of another rank
            code = row.reason.code
            self._advice_alike.setdefault(
                (row.op, code, row.reason.detail), finding.advice
            )
            self._advice_alike.setdefault((row.op, code, None), finding.advice)

    def _advice_on(self, node: ProgramNode, row: Unfused | None) -> str:
        """Return the advice on an operator: of the finding on its row, else of that
        on another row with the same reason, else of its code."""
        code, op = node.reason or "", node.op
        known = self._advice.get(node.row) if node.row is not None else None
        detail = row.reason.detail if row is not None else None
        known = known or self._advice_alike.get((op, code, detail))
        formula = (node.source or "").startswith("<string>")
        if known is None and not formula:
            known = self._advice_alike.get((op, code, None))
        known = known or self._folded.get((op, formula))
        general = CODES[code].advice if code in CODES else None
        return known or general or ""

    def _reason(self, node: ProgramNode) -> int:
        """Return the index in ``_reasons`` of the reason why it is in no group; -1
        without one."""
        if node.reason is None:
            return -1
        if node.row in self._shown_rows:
            return self._shown_rows[node.row]
        row = self._unfused.get(node.row)
        alike = (
            reason.text
            for reason in self._context.reasons
            if reason.code == node.reason
        )
        text = node.reason_text or next(alike, "")
        quotes = []
        for one in islice(row.evidence if row else (), QUOTED):
            quotes.append(
                [
                    visible(self._context.position(one)),
                    visible(self._printed(one) or ""),
                ]
            )
        number = len(self._reasons)
        if node.row is not None:
            self._shown_rows[node.row] = number
        self._reasons.append(
            [
                visible(node.reason),
                visible(text),
                bool(row and row.reason.stated),
                quotes,
                len(row.evidence) + row.evidence_left_out if row else 0,
                visible(self._advice_on(node, row)),
                visible(CODES[node.reason].title if node.reason in CODES else ""),
            ]
        )
        return number
