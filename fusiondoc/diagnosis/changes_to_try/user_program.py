"""A program that ran, and its files that may change: the user's lines that make
operators outside groups."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest, TargetSpec
from fusiondoc.captures.trust import project_root
from fusiondoc.changes.edits import read_text
from fusiondoc.changes.recipes import Recipe, helping, may_be_tried
from fusiondoc.changes.rewrite import Line
from fusiondoc.changes.source_file import NotParsable, ParsedFile
from fusiondoc.diagnosis.rules import Context, RunFacts, of_torchscript, run_facts
from fusiondoc.diagnosis.shown_operators import ShownOperators, column_of
from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Options, Source, from_package
from fusiondoc.operators import plain_name
from fusiondoc.parsers.observed import Observed

COUNTER = "FD226"
"""The reason of an operator that only counts batches: nothing is gained by changing
it."""


@dataclass(frozen=True)
class UnfusedSite:
    """An unfused operator with the user's line that makes it."""

    row: Unfused
    file: ParsedFile
    line: int

    @property
    def where(self) -> str:
        return f"{self.file.source.path}:{self.line}"


class UserProgram:
    """A program that ran, with its files.

    Attributes: training: the target is a module in training mode; None: it is no
    module. is_module: it is a module that is no TorchScript yet. is_scripted: it is
    a module of TorchScript that is not frozen. run: the facts that are known of its
    run; None if only its files are known. unread: user's files that could not be
    read -> why.
    """

    run: RunFacts | None = None

    def __init__(
        self,
        report: Report,
        target: TargetSpec,
        options: Options,
        cwd: Path,
        *,
        training: bool | None,
        is_module: bool,
        is_scripted: bool = False,
    ) -> None:
        self.report = report
        self.target = target
        self.options = options
        self.cwd = cwd
        self.training = training
        self.is_module = is_module
        self.is_scripted = is_scripted
        self.unread: dict[Path, str] = {}
        self._files: dict[Path, ParsedFile | None] = {}

    @classmethod
    def of(
        cls, request: RunRequest, capture: Capture, report: Report
    ) -> UserProgram:
        """Return the program of a run, as its target was loaded."""
        loaded = capture.records.target
        changeable = loaded.training is not None and not loaded.frozen
        program = cls(
            report,
            request.target,
            request.options(),
            request.cwd,
            training=loaded.training,
            is_module=changeable and not loaded.scripted,
            is_scripted=changeable and bool(loaded.scripted),
        )
        program.run = run_facts(
            of_torchscript(report), Context(Observed(), capture.request)
        )
        return program

    @property
    def fuser(self) -> str:
        return self.report.fuser.effective or self.report.fuser.requested or "none"

    @property
    def is_compiled(self) -> bool:
        """True if torch.compile compiles it."""
        return self.report.compiled is not None

    @property
    def torch(self) -> str | None:
        return self.report.environment.get("torch")

    @property
    def backward(self) -> bool:
        return bool(self.options.backward)

    @property
    def model_name(self) -> str:
        """The name of the model in the target's file."""
        return self.target.name or "model"

    @property
    def makes_model(self) -> bool:
        """True if the target calls ``model_name`` to get its model."""
        return self.target.call is not None

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """Folders whose files are the user's: the project of the current folder,
        and that of the target."""
        folders = [project_root(self.cwd)]
        if self.target.path is not None:
            folders.append(project_root(self.target.path.parent))
        return tuple(dict.fromkeys(folders))

    @cached_property
    def rows(self) -> Sequence[Unfused]:
        """Unfused operators that ran."""
        rows = []
        for row in self.report.rows_that_may_have_run:
            if row.reason.code != COUNTER:
                rows.append(row)
        return rows

    @cached_property
    def sites(self) -> Sequence[UnfusedSite]:
        """The unfused operators that the user's own lines make."""
        return list(self._sites(self.rows))

    @cached_property
    def idle_sites(self) -> Sequence[UnfusedSite]:
        """The operators that move no data, such as views, with the user's lines."""
        return list(
            self._sites(
                [row for row in self.report.unfused if row.reason.code == COUNTER]
            )
        )

    def _sites(self, rows: Sequence[Unfused]) -> Iterator[UnfusedSite]:
        for row in rows:
            for source in filter(None, map(Source.parse, row.users_lines)):
                file = self.file(source.file)
                if file is not None:
                    yield UnfusedSite(row, file, source.line)

    def known_line_of(self, site: UnfusedSite) -> Line | None:
        """Return the line of an operator with the facts that are certain; None if
        nothing is known of the run."""
        if self.run is None:
            return None
        shown = self._operators.known(
            site.row, self.run, self.lines_of_file(site.file)
        )
        return Line(site.file, site.line, column_of(site.row, site.line), shown)

    def line_of(self, site: UnfusedSite) -> Line:
        """Return the line of an operator with the facts that the run makes likely,
        enough to try a change."""
        row = site.row
        shown = self._operators.shown(
            row,
            recipes=[one for one in self.helping(row.op) if may_be_tried(one)],
            rank=self._operators.likely_rank(row),
            fuser=self.fuser,
            torch=self.torch,
            gradients=self.backward,
            lines_that_ran=self.lines_of_file(site.file),
        )
        return Line(site.file, site.line, column_of(row, site.line), shown)

    @cached_property
    def _operators(self) -> ShownOperators:
        return ShownOperators(self.report)

    def helping(self, op: str) -> Sequence[Recipe]:
        """Return recipes that help with an operator under the fuser of the run."""
        return helping(
            f"aten::{plain_name(op)}", self.fuser, self.torch, self.backward
        )

    def lines_of_file(self, file: ParsedFile) -> frozenset[int]:
        """Return the lines of a file with operators that ran."""
        lines = set()
        for path, line in self.lines_that_ran:
            if path == file.source.path:
                lines.add(line)
        return frozenset(lines)

    @cached_property
    def lines_that_ran(self) -> frozenset[tuple[Path, int]]:
        """The user's lines of operators in groups, and of those outside groups that
        ran."""
        paths = {name: self.path_of(name) for name in self._names}
        lines = set()
        for source in self._sources:
            if (path := paths[source.file]) is not None:
                lines.add((path, source.line))
        return frozenset(lines)

    def ran(self, file: ParsedFile, node: ast.AST) -> bool:
        """True if lines of the function around a node made operators of the run."""
        function = file.function_of(node)
        if function is None:
            return False
        lines = range(file.line(function), file.last_line(function) + 1)
        return any(
            path == file.source.path and line in lines
            for path, line in self.lines_that_ran
        )

    @property
    def in_packages(self) -> Sequence[tuple[str, Unfused]]:
        """``file:line`` of packages other than torch, with the operators that each
        line makes."""
        found = []
        for row in self.rows:
            source = Source.parse(row.source)
            if (
                source is not None
                and source.has_file
                and self.path_of(source.file) is None
            ):
                short = from_package(source.at_line)
                if not short.startswith("torch/") and "/" in short:
                    found.append((short, row))
        return found

    def path_of(self, name: str) -> Path | None:
        """Return the file of that name in the log, if it is a user's file."""
        if name.startswith("<") or not name.endswith(".py"):
            return None
        path = self.cwd / name
        try:
            real = path.resolve()
            is_file = real.is_file()
        except (OSError, ValueError, RuntimeError):  # a log may hold any name
            return None
        if {"site-packages", "dist-packages"} & set(real.parts):
            return None
        inside = any(root in real.parents for root in self.roots)
        if inside and is_file:
            return real
        return None

    def file(self, name: str) -> ParsedFile | None:
        """Return the parsed file of that name; None if it is not the user's or
        cannot be read."""
        path = self.path_of(name)
        if path is None:
            return None
        if path not in self._files:
            try:
                self._files[path] = ParsedFile(read_text(path))
            except (NotParsable, UsageError) as error:
                self.unread[path] = str(error)
                self._files[path] = None
        return self._files[path]

    @cached_property
    def target_file(self) -> ParsedFile | None:
        """The file that the target names, which makes or imports the model."""
        if self.target.kind == "file" and self.target.path is not None:
            return self.file(str(self.target.path))
        if self.target.kind != "module" or self.target.module is None:
            return None
        stem = self.cwd.joinpath(*self.target.module.split("."))
        names = (stem.with_suffix(".py"), stem / "__init__.py")
        for name in names:
            if (found := self.file(str(name))) is not None:
                return found
        return None

    @cached_property
    def _names(self) -> Sequence[str]:
        """The files of the lines that the report names, sorted."""
        return sorted({source.file for source in self._sources})

    @cached_property
    def _sources(self) -> Sequence[Source]:
        """The user's lines that the report names, once each."""
        names: list[str | None] = []
        for row in self.rows:
            names.extend(row.users_lines)
        for group in self.report.groups:
            for node in group.nodes:
                names.append(node.user_source)
        sources = map(Source.parse, dict.fromkeys(names))
        return [source for source in sources if source is not None]

    @property
    def names_in_report(self) -> Mapping[Path, str]:
        """The user's files -> how the report names them."""
        paths = {name: self.path_of(name) for name in self._names}
        names = {}
        for name, path in paths.items():
            if path is not None:
                names[path] = name
        return names

    @property
    def files(self) -> Sequence[ParsedFile]:
        """The user's files that the run shows: those of unfused operators and of
        groups, and the target's."""
        parsed = [self.target_file, *map(self.file, self._names)]
        by_path = {}
        for one in parsed:
            if one is not None:
                by_path[one.source.path] = one
        return list(by_path.values())
