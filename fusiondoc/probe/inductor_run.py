"""Runs a model under torch.compile with its default backend, Inductor; with
``--no-run`` without kernels (``inductor_without_kernels.py``)."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Iterator

from . import CANNOT_RUN, Refused, UserError, first_line
from .fusers import write_compiled
from .inductor_facts import or_none
from .inductor_without_kernels import without_kernels
from .log_and_records import Clock, Records
from .models import prepared
from .pass_inputs import (
    arguments_of,
    backward_from_ones,
    call,
    positional,
    tensors_in,
)
from .passes import Passes, Verifier
from .same_results import eager_twin
from .targets import Ready

_NO_COMPILER = "InvalidCxxCompiler"
"""The class of Inductor's error if there is no C++ compiler
(torch/_inductor/exc.py, 2.6 to 2.13)."""


class CompiledRun:
    """The run of one model under torch.compile.

    Args: own: how the program itself applies torch.compile to the model; None: it
        is compiled here. eager: the model before the program compiled it; None if
        that is not known.
    """

    def __init__(
        self,
        torch: Any,
        loaded: Ready,
        spec: dict[str, Any],
        records: Records,
        own: str | None,
        eager: Any,
    ) -> None:
        self._torch = torch
        self._loaded = loaded
        self._spec = spec
        self._records = records
        self._own = own
        self._eager = eager

    def run(self, clock: Clock) -> None:
        """Compile the model and run it.

        Raises:
            Refused: this machine cannot compile it.
            UserError: the model raised.
        """
        torch, spec, records = self._torch, self._spec, self._records
        if self._own is not None:
            why = "the target " + self._own
        else:
            why = "--frontend dynamo"
        model = prepared(torch, self._loaded.model, spec)
        eager = self._eager if self._own is not None else model
        records.write(
            "target", how="model", label=self._loaded.label, signature=None
        )
        write_compiled(records, spec, why)
        with clock.users_work():
            if spec.get("results") and eager is not None:
                from .changed_program import keep_or_compare_results

                keep_or_compare_results(
                    torch, eager, self._loaded.shapes, spec, records
                )
            compiled = model if self._own is not None else self._compiled(model)
            if spec.get("timing"):
                self._time(compiled, eager)
            elif spec.get("profile"):
                self._profile(compiled)
            else:
                self._pass(compiled, eager)

    def _compiled(self, model: Any) -> Any:
        """The model wrapped by torch.compile; nothing is compiled before the first
        call."""
        torch, spec = self._torch, self._spec
        if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            raise Refused(
                "frontend",
                "torch.compile compiles Python, and this model is TorchScript already",
                "Name the function or module before it is scripted.",
            )
        options: dict[str, Any] = {}
        if spec.get("mode", "default") != "default":
            options["mode"] = spec["mode"]
        if spec.get("dynamic"):
            options["dynamic"] = True
        try:
            return torch.compile(model, **options)
        except (
            Exception
        ) as error:  # a Python or an operating system that it does not support
            raise Refused(
                "frontend",
                "torch.compile: " + first_line(error),
                "Use another --python.",
                CANNOT_RUN,
            ) from None

    def _pass(self, compiled: Any, eager: Any) -> None:
        torch, spec, records = self._torch, self._spec, self._records
        twin = None
        if spec.get("verify") and eager is not None:
            twin = eager_twin(torch, eager)
        verifier = None
        if twin is not None:
            verifier = Verifier(torch, compiled, twin, records)
        generates_only = bool(spec.get("no_run"))
        runs = 1 if generates_only else spec["runs"]
        passes = Passes(
            torch,
            compiled,
            self._loaded.shapes,
            runs,
            spec["backward"],
            records,
            verifier,
        )
        with without_kernels(torch) if generates_only else contextlib.nullcontext():
            try:
                passes.run()
            except UserError as failed:
                self._refuse_without_compiler(failed)
                if verifier is None:
                    self._compare_with_eager(compiled, failed)
                raise

    def _refuse_without_compiler(self, failed: UserError) -> None:
        """Raise Refused if the error is caused by this machine."""
        for cause in _causes(failed):
            if type(cause).__name__ == _NO_COMPILER or _NO_COMPILER in str(cause):
                raise Refused(
                    "compiler",
                    "Inductor needs a C++ compiler on the CPU, and there is none: "
                    + first_line(cause),
                    "Install g++ (or name a compiler: CXX=PATH), or generate kernels only: --no-run.",
                    CANNOT_RUN,
                ) from None

    def _compare_with_eager(self, compiled: Any, failed: UserError) -> None:
        """Record whether the model fails in eager too.

        Raises: Refused: with kernels that compute nothing, the program itself
            fails, not torch.compile.
        """
        passed = bool(or_none(self._passes_in_eager, compiled))
        cause = failed.__cause__ or failed
        if (
            passed
            and self._spec.get("no_run")
            and not any(map(_is_of_compiler, _causes(failed)))
        ):
            raise Refused(
                "no_run",
                "--no-run computes no results, and the program fails without them: %s: %s"
                % (type(cause).__name__, first_line(cause)),
                "Run it without --no-run.",
            ) from failed
        self._records.write("eager_pass", iteration=1, inputs=0, passed=passed)

    def _passes_in_eager(self, compiled: Any) -> bool:
        """Run each shape once in eager. With this stance compiled functions run the
        Python that they were made from (torch/compiler/__init__.py, since 2.6)."""
        torch = self._torch
        backward = self._spec["backward"]
        with torch.compiler.set_stance("force_eager"):
            for shape in self._loaded.shapes:
                arguments = copy.deepcopy(arguments_of(shape))
                with torch.enable_grad() if backward else torch.no_grad():
                    outputs = tensors_in(torch, call(compiled, arguments))
                    if backward:
                        backward_from_ones(torch, outputs)
        return True

    def _time(self, compiled: Any, eager: Any) -> None:
        from .benchmark import Timing

        if eager is None:
            raise Refused(
                "timing",
                "the model compiles parts of itself: nothing is known to be its eager form",
            )
        spec = self._spec
        shapes = [positional(eager, shape) for shape in self._loaded.shapes]
        timing = Timing(
            self._torch, compiled, eager, shapes, spec["backward"], self._records
        )
        timing.run(spec["runs"], spec.get("timing_rounds"))

    def _profile(self, compiled: Any) -> None:
        from .step_profile import StepProfile

        spec, shape = self._spec, self._loaded.shapes[0]
        profile = StepProfile(
            self._torch,
            compiled,
            shape,
            spec["backward"],
            self._records,
            spec["folder"],
        )
        profile.run(spec["runs"])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors that caused an error, the last raised first."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


_COMPILER = ("torch._dynamo.", "torch._inductor.")


def _is_of_compiler(error: BaseException) -> bool:
    """True for an error of Dynamo or Inductor, by its class (torch/_dynamo/exc.py,
    torch/_inductor/exc.py)."""
    return type(error).__module__.startswith(_COMPILER)
