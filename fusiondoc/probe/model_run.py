"""Runs the model of a target: compiled by its frontend, then timed, profiled, or
run in passes."""

from __future__ import annotations

import contextlib
from typing import Any, Sequence

from . import LOADING, RUNNING, TRACED, frontends, fusers, te_plans
from .frontends import Chosen, FusedModules
from .log_and_records import Clock, Records
from .models import (
    as_given,
    frozen_for_run,
    is_frozen,
    not_compiled,
    prepared,
    signature,
    source_map,
    to_torchscript,
)
from .pass_inputs import Shape, positional
from .passes import Passes, Verifier
from .same_results import eager_twin
from .switch_watch import SwitchWatch
from .targets import Ready, ready


class ModelRun:
    """The run of a request whose target is a model.

    Args:
        fuser: the fuser that is switched on.
        modules: watches modules that fuse themselves.
        switches: watches the switches that the program sets.
    """

    def __init__(
        self,
        torch: Any,
        spec: dict[str, Any],
        records: Records,
        clock: Clock,
        fuser: str,
        modules: FusedModules,
        switches: SwitchWatch,
    ) -> None:
        self._torch = torch
        self._spec = spec
        self._records = records
        self._clock = clock
        self._fuser = fuser
        self._modules = modules
        self._switches = switches

    def run(self, te_watch: te_plans.Waiting) -> None:
        """Load the model, compile it and run it.

        Raises:
            Refused: the request cannot be done with this target.
            UserError: the user's program failed.
        """
        torch, spec = self._torch, self._spec
        before = fusers.read_back(torch)
        try:
            loaded = ready(torch, spec, self._clock)
        finally:
            self._switches.write_own_fuser()
        if spec.get("threads") and torch.cuda.is_initialized():
            torch.set_num_threads(spec["threads"])
        if not self._runs_itself(loaded, te_watch):
            self._run_torchscript(loaded, before)

    def _runs_itself(self, loaded: Ready, te_watch: te_plans.Waiting) -> bool:
        """Run a model of te.ops or torch.compile; return False for other models,
        which TorchScript runs."""
        torch, spec = self._torch, self._spec
        frontend = spec.get("frontend") or "auto"
        by_choice = frontend == "auto" and not fusers.is_compiler(self._fuser)
        if frontend == "te" or (by_choice and frontends.holds_te(loaded.model)):
            from .te_run import run_te_model

            watch = te_watch.imported(te_plans.import_te())
            run_te_model(torch, loaded, spec, watch, self._records, self._clock)
            return True
        self._records.write("target", **as_given(torch, loaded.model))
        return frontends.ran_compiled(
            torch, loaded, spec, self._fuser, self._records, self._clock
        )

    def _run_torchscript(self, loaded: Ready, before: tuple[Any, ...]) -> None:
        """Script or trace the model, or hand it to AOTAutograd, and run it.

        Args:
            before: the switches before the file was loaded.
        """
        torch, spec = self._torch, self._spec
        frontend = spec.get("frontend") or "auto"
        with self._clock.users_work():
            model, chosen = self._prepared(frontend, loaded.model)
            if spec.get("results") and chosen.frontend != "aot":
                from .changed_program import keep_or_compare_results

                keep_or_compare_results(
                    torch, model, loaded.shapes, spec, self._records
                )
            twin = None
            if spec.get("verify") and chosen.eager is not None:
                twin = eager_twin(
                    torch, chosen.eager if chosen.frontend == "aot" else model
                )
            self._switches.stage = TRACED
            compiled, frozen_here = self._compiled(model, chosen, loaded.shapes[0])
        self._switches.write_off(LOADING)
        self._switches.stage = RUNNING
        self._set_back_switches(before)
        self._records.write(
            "target",
            how="model",
            label=loaded.label,
            signature=signature(compiled),
            frozen=is_frozen(torch, compiled),
            frozen_here=frozen_here,
        )
        frontends.write_choice(self._records, spec, chosen, twin is not None)
        if spec.get("timing"):
            self._time(compiled, model, chosen, loaded.shapes)
        elif spec.get("profile"):
            self._profile(compiled, loaded.shapes[0])
        else:
            self._pass(compiled, twin, loaded.shapes)

    def _prepared(self, frontend: str, model: Any) -> tuple[Any, Chosen]:
        """The model prepared for compilation, and the frontend that compiles it."""
        model = prepared(self._torch, model, self._spec)
        if frontend != "torchscript" and not self._spec.get("timing"):
            self._modules.name_layers(model)
        chosen = frontends.choose(self._torch, frontend, model)
        if chosen.frontend != "aot":
            model = not_compiled(model, self._records.note)
        return model, chosen

    def _compiled(
        self, model: Any, chosen: Chosen, shape: Shape
    ) -> tuple[Any, bool]:
        """The compiled model, and whether the probe froze it."""
        torch, spec, note = self._torch, self._spec, self._records.note
        if chosen.frontend == "aot":
            return chosen.model, False
        scripted = to_torchscript(torch, model, shape, spec["trace"], note)
        was_frozen = is_frozen(torch, scripted)
        scripted = frozen_for_run(torch, spec, scripted, self._fuser, note)
        return scripted, is_frozen(torch, scripted) and not was_frozen

    def _set_back_switches(self, before: tuple[Any, ...]) -> None:
        """Set the switches of the request again, if the user's module changed some
        while it was loaded."""
        if fusers.read_back(self._torch) == before:
            return
        self._records.note(
            "the file sets fuser switches itself; they were set back to --fuser"
        )
        fusers.switch_on(self._torch, self._fuser)
        if self._spec["knobs"]:
            from . import knobs

            knobs.apply_all(self._torch, self._spec["knobs"])

    def _time(
        self, compiled: Any, model: Any, chosen: Chosen, shapes: Sequence[Shape]
    ) -> None:
        from .benchmark import Timing

        spec = self._spec
        with self._clock.users_work():
            shapes = [positional(model, shape) for shape in shapes]
            eager = chosen.eager if chosen.frontend == "aot" else model
            timing = Timing(
                self._torch,
                compiled,
                eager,
                shapes,
                spec["backward"],
                self._records,
            )
            timing.run(spec["runs"], spec.get("timing_rounds"))

    def _profile(self, compiled: Any, shape: Shape) -> None:
        from .step_profile import StepProfile

        spec = self._spec
        with self._clock.users_work():
            profile = StepProfile(
                self._torch,
                compiled,
                shape,
                spec["backward"],
                self._records,
                spec["folder"],
            )
            profile.run(spec["runs"])

    def _pass(self, compiled: Any, twin: Any, shapes: Sequence[Shape]) -> None:
        torch, spec, records = self._torch, self._spec, self._records
        # A torch whose graphs cannot be read this way can still run the model.
        with contextlib.suppress(Exception):
            records.write("source_map", **source_map(torch, compiled))
        verifier = None
        if twin is not None:
            verifier = Verifier(torch, compiled, twin, records)
        with self._clock.users_work():
            try:
                Passes(
                    torch,
                    compiled,
                    shapes,
                    spec["runs"],
                    spec["backward"],
                    records,
                    verifier,
                ).run()
            finally:
                self._switches.finish()
