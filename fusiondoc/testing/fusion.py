"""The fixture ``fusion``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

from fusiondoc.errors import CannotRun, FusiondocError
from fusiondoc.model.report import Report


class Fusion:
    """Runs functions and modules under a fuser, each in a process of its own, so that the fuser state of the
    test process stays as it is.

    ``fn`` may be a function, an ``nn.Module`` or what ``torch.jit.script`` and ``torch.jit.trace`` give,
    defined anywhere, also in the test. It is scripted in the test process, where it is compiled and not run;
    a lambda, a bound method, a builtin, a ``functools.partial`` or another object with ``__call__``, which
    TorchScript cannot script, is traced with the inputs. ``trace=True`` traces anything.

    ``fuser`` None is ``--fusion-fuser``, else ``fusion_fuser`` of the ini file, else "auto". ``options`` are
    those of ``fusiondoc diagnose``: ``trace``, ``knobs`` (a dict), ``dumps`` (a list), ``seed``, ``timeout``
    (seconds), ``verify``, ``no_freeze``.

    Both methods skip the test where the fuser cannot work, and raise ``fusiondoc.errors.ModelFailed`` with
    the model's own traceback where ``fn`` cannot be compiled or fails, and ``UsageError`` for wrong
    arguments.
    """

    def __init__(self, test: str, folder: Callable[[], Path], fuser: str = "auto") -> None:
        """``test`` is how messages name the test; ``folder`` gives the folder for its captures."""
        self._test = test
        self._folder = folder
        self._fuser = fuser

    def diagnose(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        backward: bool = False,
        fuser: str | None = None,
        runs: int = 5,
        **options: Any,
    ) -> Report:
        """The report of ``runs`` passes (forward, and backward if asked for) of ``fn(*inputs)``."""
        __tracebackhide__ = True
        from fusiondoc.testing.child_run import run_in_child

        try:
            return run_in_child(
                fn, inputs, self._folder, self._test, fuser or self._fuser, backward, runs, options
            )
        except CannotRun as error:
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
        """Run ``fn`` and raise AssertionError unless the groups are there; returns the report.

        Args:
            groups: each a list of operators in order (``["aten::add", "relu"]``), or a mapping with the keys
                of a group in ``fusiondoc check`` (``{"set": ["add", "relu"], "exactly": 1}``). None asks for
                at least one group of any operators.
            no_fallback: no group may fall back to unfused operators.
            phase: "forward" or "backward", for groups that do not say it themselves.
            number_of_groups, min_coverage: as in ``fusiondoc check``.
        """
        __tracebackhide__ = True
        from fusiondoc.testing.expected import broken, expected

        others = {"number_of_groups": number_of_groups, "min_coverage": min_coverage}
        try:
            section = expected(groups, phase, no_fallback, others)
        except FusiondocError as error:
            raise _with_hint(error) from None
        report = self.diagnose(fn, *inputs, backward=backward, fuser=fuser, runs=runs, **options)
        message = broken(section, report)
        if message is not None:
            raise AssertionError(message)
        return report


def _with_hint(error: FusiondocError) -> FusiondocError:
    """The same, with the hint in the text that pytest prints."""
    return type(error)(f"{error.message}\n{error.hint}" if error.hint else error.message)
