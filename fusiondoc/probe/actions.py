"""The actions of the probe: ``run`` or ``bench`` a target, record the ``facts`` or ``knobs`` of this
interpreter, or measure the ``bandwidth`` of its GPU."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import sys
from typing import Any, Callable

from . import (
    CANNOT_RUN,
    DONE,
    INTERRUPTED,
    LOADING,
    MODEL_FAILED,
    RUNNING,
    TRACED,
    Refused,
    UserError,
    environment,
    frontends,
    hint_of,
    log_and_records,
    message_of,
    replaced,
    te_plans,
    users_traceback,
)
from .aot_watch import Watch
from .frontends import FusedModules
from .log_and_records import Clock, Records
from .models import (
    as_given,
    frozen,
    frozen_for_run,
    is_frozen,
    not_compiled,
    prepared,
    signature,
    source_map,
    to_torchscript,
)
from .own_switches import OwnSwitches
from .pass_inputs import positional
from .passes import Passes
from .script_run import run_as_script
from .switch_watch import SwitchWatch
from .targets import ready, runs_as_script


def main(spec_path: str, records_path: str, started: float) -> int:
    """Do what the spec says; returns the exit status (see ``probe/__init__.py``)."""
    clock = Clock(started)
    with open(spec_path, "rb") as file:
        spec: dict[str, Any] = json.loads(file.read().decode("utf-8"))
    spec["folder"] = os.path.dirname(os.path.abspath(records_path))
    if spec.get("secret"):
        os.unlink(spec_path)
    records = Records(records_path)
    if spec["action"] == "facts":
        records.write("facts", **environment.interpreter_facts())
        return DONE
    log_and_records.LOG.keep()
    log_and_records.line_buffer()
    log_and_records.stack_on_death()
    status = _guarded(spec, records, clock)
    log_and_records.flush()
    records.write("done", seconds=round(clock.seconds(), 6), own_seconds=round(clock.own_seconds(), 6))
    return status


def _guarded(spec: dict[str, Any], records: Records, clock: Clock) -> int:
    try:
        if spec["action"] == "knobs":
            _try_everything(records, clock)
        elif spec["action"] == "bandwidth":
            _measure_bandwidth(records, clock)
        elif spec["action"] == "bench":
            _bench(spec, records, clock)
        else:
            _run(spec, records, clock)
    except Refused as refused:
        records.write(
            "error",
            stage=refused.stage,
            type="Refused",
            message=refused.message,
            traceback=None,
            hint=refused.hint,
        )
        _print_error("fusiondoc: %s\n" % refused.message)
        return refused.status
    except UserError as failed:
        _report(records, failed.stage, failed.__cause__ or failed, failed.hint)
        return MODEL_FAILED
    except SystemExit as error:
        _report(records, "exit", error, "The program ended the process itself before all passes were done.")
        return MODEL_FAILED
    except KeyboardInterrupt as error:
        _report(records, "interrupted", error, None)
        return INTERRUPTED
    except BaseException as error:
        # Neither a usual failure of the program nor a known refusal: memory that runs out while tensors move,
        # exceptions that are no Exception, and the like.
        _report(records, "unexpected", error, None)
        return MODEL_FAILED
    return DONE


def _report(records: Records, stage: str, error: BaseException, hint: str | None) -> None:
    text = users_traceback(error)
    kind, hint = type(error).__name__, hint or hint_of(message_of(error))
    records.write("error", stage=stage, type=kind, message=message_of(error), traceback=text, hint=hint)
    _print_error(text)


def _print_error(text: str) -> None:
    log_and_records.flush()
    # The program may have replaced or closed it.
    with contextlib.suppress(Exception):
        sys.stderr.write(text)
    log_and_records.flush()


def _import_torch(clock: Clock) -> Any:
    with clock.users_work():
        try:
            return importlib.import_module("torch")
        except ImportError as error:
            raise Refused(
                "import_torch",
                "%s cannot import torch: %s" % (sys.executable, error),
                "Install torch for that interpreter, or choose another with --python.",
                CANNOT_RUN,
            ) from None


def _try_everything(records: Records, clock: Clock) -> None:
    from . import knobs

    torch = _import_torch(clock)
    records.write("environment", **environment.torch_environment(torch))
    for knob in knobs.try_all(torch):
        records.write(**knob)
    environment.try_fusers(torch, records)


def _measure_bandwidth(records: Records, clock: Clock) -> None:
    from .environment import measured_bandwidth

    records.write("bandwidth", **measured_bandwidth(_import_torch(clock)))


def _run(spec: dict[str, Any], records: Records, clock: Clock) -> None:
    target = spec["target"]
    replaced.replace_sources(spec.get("overlay") or {})
    sys.path.insert(0, os.path.dirname(target["path"]) if target["path"] else spec["cwd"])
    sys.argv = [target["path"] or target["text"], *spec["script_args"]]
    script, note = spec["script"], None
    if not script:
        script, note = runs_as_script(target, bool(spec["inputs"]))
    if note:
        records.write("note", text=note)
    for option in ("backward", "trace", "device", "verify", "no_freeze", "freeze"):
        if script and spec.get(option):
            name = option.replace("_", "-")
            records.write("note", text="--%s has no effect on a script that is run as it is" % name)
    torch = _import_torch(clock)
    if spec.get("launcher") and not script:
        environment.take_own_gpu(torch)
    records.write("environment", **environment.torch_environment(torch, device=not script))
    own = OwnSwitches(torch)
    fuser = _switch(torch, spec, records)
    if spec["seed"] is not None:
        random.seed(spec["seed"])
        torch.manual_seed(spec["seed"])
    watch = Watch(torch, records, quiet=bool(spec.get("timing")))
    modules = FusedModules(torch, records, watch)
    switches = SwitchWatch(torch, records, fuser, spec["knobs"], own)
    switches.start()
    watches_aot = spec.get("frontend") in (None, "auto", "aot")
    if watches_aot:
        watch.start()
        if not spec.get("timing"):
            modules.start()
    te_watch = _te_watch(spec, records, clock, watch)
    if not script:
        try:
            _run_model(torch, spec, records, clock, fuser, te_watch, modules, switches)
        finally:
            watch.finish()
            modules.finish()
        return
    try:
        with log_and_records.LOG.recorded_when_put_back(records.write):
            watching = [watch, modules] if watches_aot else []
            run_as_script(torch, spec, records, clock, fuser, watching, switches)
    finally:
        switches.write_own_fuser()
        log_and_records.mark("end")
        watch.finish()
        modules.finish()
        te_watch.end(None)
        if spec.get("frontend") == "te":
            records.write("frontend", requested="te", effective="te", why="asked for")
        away = log_and_records.LOG.away()
        if away:
            records.write("redirected", **away)
        records.write("environment", **environment.torch_environment(torch))


def _switch(torch: Any, spec: dict[str, Any], records: Records) -> str:
    """Set the fuser, then the knobs, which override it; record the values that both read back as."""
    fuser, why = environment.choose_fuser(torch, spec["fuser"])
    environment.switch_on(torch, fuser)
    live = environment.is_on(torch, fuser)
    records.write("fuser", requested=spec["fuser"], effective=fuser, live=live, why=why)
    for knob in _turn_knobs(torch, spec["knobs"]):
        records.write(**knob)
    return fuser


def _turn_knobs(torch: Any, wanted: dict[str, str]) -> list[dict[str, Any]]:
    if not wanted:
        return []
    from . import knobs

    rows = [knobs.apply(torch, name, value) for name, value in wanted.items()]
    for row in rows:
        if row.get("error"):
            text = "cannot set the knob %s=%s: %s" % (row["name"], row["requested"], row["error"])
            hint = "fusiondoc knobs lists what this torch has and which values it takes."
            raise Refused("knob", text, hint, CANNOT_RUN)
    return rows


def _te_watch(spec: dict[str, Any], records: Records, clock: Clock, watch: Watch) -> te_plans.Waiting:
    """The recorder of Transformer Engine's plans, which begins when that is imported."""
    waiting = te_plans.Waiting(records)
    frontend = spec.get("frontend") or "auto"
    if frontend == "te":
        with clock.users_work():
            waiting.imported(te_plans.import_te())
    elif frontend == "auto" and not spec.get("timing"):
        watch.after_import[te_plans.OPS] = waiting.imported
    return waiting


def _run_te(
    torch: Any, spec: dict[str, Any], records: Records, clock: Clock, loaded: Any, te_watch: te_plans.Waiting
) -> None:
    from .te_run import TeRun

    watch = te_watch.imported(te_plans.import_te())
    records.write("target", how="model", label=loaded.label, signature=None)
    why = "asked for" if spec.get("frontend") == "te" else "the model holds te.ops operators"
    records.write("frontend", requested=spec.get("frontend"), effective="te", why=why)
    for option in ("trace", "verify", "no_freeze", "freeze"):
        if spec.get(option):
            text = "--%s has no effect on operators of Transformer Engine" % option.replace("_", "-")
            records.write("note", text=text)
    with clock.users_work():
        TeRun(torch, loaded.model, loaded.shapes, spec, watch, records).run()


def _run_model(
    torch: Any,
    spec: dict[str, Any],
    records: Records,
    clock: Clock,
    fuser: str,
    te_watch: te_plans.Waiting,
    modules: FusedModules,
    switches: SwitchWatch,
) -> None:
    before = environment.read_back(torch)
    try:
        loaded = ready(torch, spec, clock)
    finally:
        switches.write_own_fuser()
    frontend = spec.get("frontend") or "auto"
    if frontend == "te" or (frontend == "auto" and frontends.holds_te(loaded.model)):
        _run_te(torch, spec, records, clock, loaded, te_watch)
        return
    model, shapes = loaded.model, loaded.shapes
    records.write("target", **as_given(torch, model))
    with clock.users_work():
        model = prepared(torch, model, spec)
        if frontend != "torchscript" and not spec.get("timing"):
            modules.name_layers(model)
        chosen = frontends.choose(torch, frontend, model)
        aot = chosen.frontend == "aot"
        if not aot:
            model = not_compiled(model, _noting(records))
        if spec.get("results") and not aot:
            from .changed_program import keep_or_compare_results

            keep_or_compare_results(torch, model, shapes, spec, records)
        twin = None
        if spec.get("verify") and chosen.eager is not None:
            twin = _eager_twin(torch, chosen.eager if aot else model)
        switches.stage = TRACED
        if aot:
            scripted, was_frozen = chosen.model, False
        else:
            scripted = to_torchscript(torch, model, shapes[0], spec["trace"], _noting(records))
            was_frozen = is_frozen(torch, scripted)
            scripted = frozen_for_run(torch, spec, scripted, fuser, _noting(records))
    switches.write_off(LOADING)
    switches.stage = RUNNING
    if environment.read_back(torch) != before:
        # The user's module set switches of its own; those that the request names hold.
        records.write("note", text="the file sets fuser switches itself; they were set back to --fuser")
        environment.switch_on(torch, fuser)
        _turn_knobs(torch, spec["knobs"])
    froze = is_frozen(torch, scripted)
    records.write(
        "target",
        how="model",
        label=loaded.label,
        signature=signature(scripted),
        frozen=froze,
        frozen_here=froze and not was_frozen,
    )
    frontends.write_choice(records, spec, chosen, twin is not None)
    if spec.get("timing"):
        from .benchmark import Timing

        with clock.users_work():
            shapes = [positional(model, one) for one in shapes]
            eager = chosen.eager if aot else model
            timing = Timing(torch, scripted, eager, shapes, spec["backward"], records)
            timing.run(spec["runs"], spec.get("timing_rounds"))
        return
    if spec.get("profile"):
        from .step_profile import StepProfile

        with clock.users_work():
            profile = StepProfile(torch, scripted, shapes[0], spec["backward"], records, spec["folder"])
            profile.run(spec["runs"])
        return
    # A torch whose graphs cannot be read this way can still run the model.
    with contextlib.suppress(Exception):
        records.write("source_map", **source_map(torch, scripted))
    verifier = _verifier(torch, scripted, twin, records) if twin is not None else None
    with clock.users_work():
        try:
            Passes(torch, scripted, shapes, spec["runs"], spec["backward"], records, verifier).run()
        finally:
            switches.finish()


def _noting(records: Records) -> Callable[[str], None]:
    return lambda text: records.write("note", text=text)


def _bench(spec: dict[str, Any], records: Records, clock: Clock) -> None:
    """One variant of a model in one phase, timed in the rounds that the parent requests."""
    from .benchmark import Bench

    records.write("started", pid=os.getpid())
    replaced.replace_sources(spec.get("overlay") or {})
    target = spec["target"]
    sys.path.insert(0, os.path.dirname(target["path"]) if target["path"] else spec["cwd"])
    sys.argv = [target["path"] or target["text"]]
    script, _ = runs_as_script(target, bool(spec["inputs"] or spec["shapes"]))
    if script:
        raise Refused(
            "target",
            "%s is a script of its own: it has no model to run in other ways"
            % os.path.basename(target["path"]),
            "Name the model (FILE.py:NAME), or give the file a model and inputs.",
        )
    torch = _import_torch(clock)
    records.write("environment", **environment.torch_environment(torch))
    if spec["seed"] is not None:
        random.seed(spec["seed"])
        torch.manual_seed(spec["seed"])
    loaded = ready(torch, spec, clock)
    model = not_compiled(loaded.model, _noting(records))
    model = prepared(torch, model, spec)
    records.write("target", how="model", label=loaded.label, signature=signature(model))
    with clock.users_work():
        try:
            shapes = [_given(torch, positional(model, shape), spec) for shape in loaded.shapes]
        except Refused:
            raise
        except Exception as error:
            raise UserError("inputs") from error
    if spec.get("freeze"):
        model = frozen(torch, to_torchscript(torch, model, shapes[0].example, spec["trace"]))
    bench = Bench(torch, spec["variant"], model, shapes, spec["phase"], records)
    bench.run(
        spec["control"], spec["trace"], spec["round_seconds"], lambda: _turn_knobs(torch, spec["knobs"])
    )


def _given(torch: Any, shape: Any, spec: dict[str, Any]) -> Any:
    """The arguments of the steps of one shape; a function of the user's makes new ones at every call."""
    from .benchmark_steps import Given, random_sizes

    if spec["random_sizes"]:
        return random_sizes(torch, shape, spec["seed"] or 0)
    return Given(shape, fixed=shape() is shape())


def _eager_twin(torch: Any, model: Any) -> Any:
    from .same_results import eager_twin

    return eager_twin(torch, model)


def _verifier(torch: Any, scripted: Any, twin: Any, records: Records) -> Any:
    from .passes import Verifier

    return Verifier(torch, scripted, twin, records)
