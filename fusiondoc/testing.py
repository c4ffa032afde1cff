"""The fixture ``fusion``: runs a test's function, reports, and compares the report
with the groups that its assertions expect."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusiondoc.captures.python_options import checked_options
from fusiondoc.captures.request import RunRequest, TargetSpec
from fusiondoc.captures.store import cannot_write
from fusiondoc.errors import CannotRun, FusiondocError, UsageError
from fusiondoc.expectations import ExpectationSection, FilePosition
from fusiondoc.expectations.gate import hold
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report
from fusiondoc.model.run_options import Offer
from fusiondoc.workflows.run_model import name_of, run_model, slug_of


def run_in_child(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    folder: Callable[[], Path],
    test: str,
    fuser: str,
    backward: bool,
    runs: int,
    options: Mapping[str, Any],
) -> Report:
    """Run ``fn`` and return the report.

    Args: folder: returns the folder for captures of this test; called when
        something must be written. test: the test's name in messages. options: run
        options with ``Offer.TESTS``.

    Raises:
        FusiondocError: the error that ``fusiondoc diagnose`` would end with.
        KeyboardInterrupt: the user interrupted; the child was stopped.
    """
    request = RunRequest(
        target=TargetSpec(f"{test} ({name_of(fn)})", "file"),
        python=Path(sys.executable),
        cwd=Path.cwd(),
        **checked_options(
            {"fuser": fuser, "backward": backward, "runs": runs}, Offer.PYTHON
        ),
        **checked_options(options, Offer.TESTS),
    )
    return run_model(
        fn, [inputs], request, numbered_folder(folder(), slug_of(fn))
    ).report


class Fusion:
    """Runs functions and modules under a fuser, each in a process of its own, so
    that the fuser state of the test process stays as it is.

    ``fn`` may be a function, an ``nn.Module`` or a result of ``torch.jit.script``
    or ``torch.jit.trace``, defined anywhere, also in the test. It is scripted in
    the test process, where it is compiled and not run; a lambda, a bound method, a
    builtin, a ``functools.partial`` or another object with ``__call__``, which
    TorchScript cannot script, is traced with the inputs. ``trace=True`` traces
    anything.

    ``fuser`` None is ``--fusion-fuser``, else ``fusion_fuser`` of the ini file,
    else "auto". ``options`` are those of ``fusiondoc diagnose``: ``trace``,
    ``knobs`` (a dict), ``dumps`` (a list), ``seed``, ``timeout`` (seconds),
    ``verify``, ``no_freeze``, ``freeze``, and of torch.compile ``mode``,
    ``dynamic``, ``no_run``.

    Both methods skip the test where the fuser cannot work, unless ``required``, and
    raise ``fusiondoc.errors.ModelFailed`` with the model's own traceback where
    ``fn`` cannot be compiled or fails, and ``UsageError`` for wrong arguments.
    """

    def __init__(
        self,
        test: str,
        folder: Callable[[], Path],
        fuser: str = "auto",
        required: bool = False,
    ) -> None:
        """``test`` is the test's name in messages; ``folder`` returns the folder
        for its captures; ``required``: a test whose fuser cannot work here
        fails."""
        self._test = test
        self._folder = folder
        self._fuser = fuser
        self._required = required

    def diagnose(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        backward: bool = False,
        fuser: str | None = None,
        runs: int = 5,
        **options: Any,
    ) -> Report:
        """The report of ``runs`` passes (forward, and backward if requested) of
        ``fn(*inputs)``."""
        __tracebackhide__ = True
        from fusiondoc.testing import run_in_child

        try:
            return run_in_child(
                fn,
                inputs,
                self._folder,
                self._test,
                fuser or self._fuser,
                backward,
                runs,
                options,
            )
        except CannotRun as error:
            if self._required:
                raise _with_hint(error) from None
            hint = f". {error.hint}" if error.hint else ""
            pytest.skip(f"fusiondoc: {error.message}{hint}")
        except FusiondocError as error:
            raise _with_hint(error) from None

    def assert_fused(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        groups: Sequence[Any] | None = None,
        no_fallback: bool = True,
        phase: str | None = None,
        number_of_groups: Any = None,
        min_coverage: Any = None,
        backward: bool = False,
        fuser: str | None = None,
        runs: int = 5,
        **options: Any,
    ) -> Report:
        """Run ``fn`` and raise AssertionError unless the groups are there; returns
        the report.

        Args:
            groups: each a list of operators in order (``["aten::add", "relu"]``), or a mapping with the keys
                of a group in ``fusiondoc check`` (``{"set": ["add", "relu"], "exactly": 1}``). None asks for
                at least one group of any operators.
            no_fallback: no group may fall back to unfused operators.
            phase: "forward" or "backward", for groups that do not say it themselves.
            number_of_groups, min_coverage: as in ``fusiondoc check``.
        """
        __tracebackhide__ = True
        from fusiondoc.testing import broken, expected

        others = {
            "number_of_groups": number_of_groups,
            "min_coverage": min_coverage,
        }
        try:
            section = expected(groups, phase, no_fallback, others)
        except FusiondocError as error:
            raise _with_hint(error) from None
        report = self.diagnose(
            fn, *inputs, backward=backward, fuser=fuser, runs=runs, **options
        )
        message = broken(section, report)
        if message is not None:
            raise AssertionError(message)
        return report


def _with_hint(error: FusiondocError) -> FusiondocError:
    """The same error, with the hint in the text that pytest prints."""
    return type(error)(
        f"{error.message}\n{error.hint}" if error.hint else error.message
    )


_NAME = "assert_fused"
_HINT = "A group is a list of operators, such as ['aten::add', 'relu'], or has the keys of fusiondoc check."


def expected(
    groups: Sequence[Any] | None,
    phase: str | None,
    no_fallback: bool,
    others: Mapping[str, Any],
) -> ExpectationSection:
    """The expectations of a call of ``assert_fused``.

    Args:
        groups: each as in the YAML of ``check``: a sequence of operators, or a mapping of keys. None: there
            is at least one group, whatever is in it.
        phase: of all groups that name none.
        others: further keys of a section (``min_coverage``, ``number_of_groups``); None leaves one out.

    Raises:
        UsageError: a key or a value that no file of expectations may hold.
    """
    whole = {}
    for key, value in others.items():
        if value is not None:
            whole[key] = value
    if groups is None:
        whole.setdefault("number_of_groups", {"at_least": 1})
    if no_fallback:
        whole["max_fallbacks"] = 0
    # One group a line, after the lines of the other keys, so that a line number
    # identifies the group.
    lines = ["# " + _NAME] if not whole else []
    lines += [f"{key}: {_json(value)}" for key, value in whole.items()]
    before = len(lines) + 1
    if groups and _is_list(groups):
        lines += [
            "groups:",
            *(f"- {_json(_with_phase(group, phase))}" for group in groups),
        ]
    elif groups is not None:
        lines.append(f"groups: {_json(groups)}")

    def in_words(position: FilePosition) -> str:
        number = position.line - before
        if number > 0:
            return f"{_NAME}, group {number}"
        return _NAME

    try:
        return loads("\n".join(lines), _NAME, position_in_words=in_words).sections[
            0
        ]
    except UsageError as error:
        raise UsageError(error.message, _HINT) from None


def broken(section: ExpectationSection, report: Report) -> str | None:
    """Return the broken expectations, a line each as in ``fusiondoc check``, and
    the command for the whole report; None if all hold."""
    lines = []
    for outcome in hold(section, report):
        if not outcome.holds:
            lines.append(outcome.text)
    if not lines:
        return None
    torch = report.environment.get("torch")
    under = f"under {report.fuser.effective or 'no fuser'}" + (
        f", torch {torch}" if torch else ""
    )
    return "\n".join(
        [
            *lines,
            under,
            f"the whole report: fusiondoc parse {report.target.capture}",
        ]
    )


def _with_phase(group: Any, phase: str | None) -> Any:
    if phase is None:
        return group
    if isinstance(group, Mapping):
        return {"phase": phase, **group}
    if _is_list(group):
        return {"ops": group, "phase": phase}
    return group


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _json(value: Any) -> str:
    """A value as JSON, which is YAML in one line."""

    def plain(other: Any) -> Any:
        if isinstance(other, (set, frozenset)):
            return sorted(other, key=str)
        raise UsageError(
            f"{_NAME}: {other!r} is of type {type(other).__name__}, which it cannot compare",
            _HINT,
        )

    return json.dumps(value, default=plain)


def folder_name(nodeid: str) -> str:
    """A name for the folder of a test, readable and different for each:
    ``test_a.py-test_fused-1c291ca3``."""
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", nodeid.rpartition("/")[2]).strip(
        "-."
    )[:80]
    return f"{readable}-{zlib.crc32(nodeid.encode('utf-8', 'replace')):08x}"


def numbered_folder(folder: Path, slug: str) -> Path:
    """A new folder ``1-name``, ``2-name`` ... for each run: the model is written
    into it before the run, and the run puts its capture there too, so the two stay
    together.

    Raises:
        UsageError: it cannot be written.
    """
    number = 0
    while True:
        number += 1
        path = folder / f"{number}-{slug}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_write(error, path) from None
