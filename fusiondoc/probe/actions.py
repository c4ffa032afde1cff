"""The actions of the probe: ``run`` or ``bench`` a target, record the ``facts`` or
``knobs`` of this interpreter, or measure the ``bandwidth`` of its GPU."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import sys
from typing import Any, Sequence

from . import (
    CANNOT_RUN,
    DONE,
    INTERRUPTED,
    MODEL_FAILED,
    OWN_FOLDER,
    Refused,
    UserError,
    environment,
    frontends,
    fusers,
    hint_of,
    log_and_records,
    message_of,
    replaced,
    te_plans,
    users_traceback,
)
from .aot_watch import Watch
from .frontends import FusedModules
from .input_watch import InputWatch
from .log_and_records import Clock, Records
from .model_run import ModelRun
from .models import frozen, not_compiled, prepared, signature, to_torchscript
from .own_switches import OwnSwitches
from .pass_inputs import positional
from .script_run import run_as_script
from .switch_watch import SwitchWatch
from .targets import ready, runs_as_script


def main(spec_path: str, records_path: str, started: float) -> int:
    """Carry out the action of the spec; return the exit status (see
    ``probe/__init__.py``)."""
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
    inputs = _input_watch(spec)
    status = _guarded(spec, records, clock)
    for watch in inputs:
        records.write("inputs", **watch.found())
    log_and_records.flush()
    records.write(
        "done",
        seconds=round(clock.seconds(), 6),
        own_seconds=round(clock.own_seconds(), 6),
    )
    return status


def _input_watch(spec: dict[str, Any]) -> list[InputWatch]:
    """Return the started watch of the files that the program reads; empty if the
    request does not record them."""
    if not spec.get("record_inputs"):
        return []
    watch = InputWatch((OWN_FOLDER, spec["folder"]))
    watch.start()
    return [watch]


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
        _report(
            records,
            "exit",
            error,
            "The program ended the process itself before all passes were done.",
        )
        return MODEL_FAILED
    except KeyboardInterrupt as error:
        _report(records, "interrupted", error, None)
        return INTERRUPTED
    except BaseException as error:
        # Neither a usual failure of the program nor a known refusal: for example no
        # memory left for moving tensors, or exceptions that do not derive from
        # Exception.
        _report(records, "unexpected", error, None)
        return MODEL_FAILED
    return DONE


def _report(
    records: Records, stage: str, error: BaseException, hint: str | None
) -> None:
    text = users_traceback(error)
    kind, hint = type(error).__name__, hint or hint_of(message_of(error))
    records.write(
        "error",
        stage=stage,
        type=kind,
        message=message_of(error),
        traceback=text,
        hint=hint,
    )
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
    fusers.try_fusers(torch, records)


def _measure_bandwidth(records: Records, clock: Clock) -> None:
    from .bandwidth import measured_bandwidth

    records.write("bandwidth", **measured_bandwidth(_import_torch(clock)))


def _run(spec: dict[str, Any], records: Records, clock: Clock) -> None:
    script = _found_as_script(spec, records)
    torch = _import_torch(clock)
    if spec.get("launcher") and not script:
        environment.take_own_gpu(torch)
    records.write(
        "environment", **environment.torch_environment(torch, device=not script)
    )
    own = OwnSwitches(torch)
    fuser = _switch(torch, spec, records)
    _seed(torch, spec)
    watch = Watch(torch, records, quiet=bool(spec.get("timing")))
    modules = FusedModules(torch, records, watch)
    switches = SwitchWatch(torch, records, fuser, spec["knobs"], own)
    switches.start()
    watches_aot = not fusers.is_compiler(fuser) and spec.get("frontend") in (
        None,
        "auto",
        "aot",
    )
    if watches_aot:
        watch.start()
        if not spec.get("timing"):
            modules.start()
    te_watch = _te_watch(spec, records, clock, watch)
    compiler = _compiler_watch(torch, spec, records, fuser)
    if script:
        watching = [watch, modules] if watches_aot else []
        try:
            with log_and_records.LOG.recorded_when_put_back(
                records.write
            ), _kernels(torch, spec):
                run_as_script(
                    torch,
                    spec,
                    records,
                    clock,
                    fuser,
                    [*watching, *compiler],
                    switches,
                )
        finally:
            switches.write_own_fuser()
            log_and_records.mark("end")
            watch.finish()
            modules.finish()
            te_watch.end(None)
            _end_of_compiled_script(spec, records, compiler)
            _write_end_of_script(torch, spec, records)
    else:
        try:
            ModelRun(torch, spec, records, clock, fuser, modules, switches).run(
                te_watch
            )
        finally:
            watch.finish()
            modules.finish()
            for compiler_watch in compiler:
                compiler_watch.finish()


def _found_as_script(spec: dict[str, Any], records: Records) -> bool:
    """Set up the import path and arguments of the program; return whether it runs
    as a script."""
    target = spec["target"]
    _set_up_program(spec, spec["script_args"])
    script, note = spec["script"], None
    if not script:
        script, note = runs_as_script(target, bool(spec["inputs"]))
    if note:
        records.note(note)
    if script:
        ignored = ("backward", "trace", "device", "verify", "no_freeze", "freeze")
        frontends.note_ignored_options(
            records, spec, ignored, "a script that is run as it is"
        )
    return bool(script)


def _set_up_program(spec: dict[str, Any], script_args: Sequence[str]) -> None:
    """Set up replaced sources, the import path and ``sys.argv`` as in a run by
    hand."""
    target = spec["target"]
    replaced.replace_sources(spec.get("overlay") or {})
    sys.path.insert(
        0, os.path.dirname(target["path"]) if target["path"] else spec["cwd"]
    )
    sys.argv = [target["path"] or target["text"], *script_args]


def _seed(torch: Any, spec: dict[str, Any]) -> None:
    if spec["seed"] is not None:
        random.seed(spec["seed"])
        torch.manual_seed(spec["seed"])


def _write_end_of_script(
    torch: Any, spec: dict[str, Any], records: Records
) -> None:
    """Write the facts that are known only at the end of a script: its streams, and
    the device that it has used."""
    if spec.get("frontend") == "te":
        records.write("frontend", requested="te", effective="te", why=None)
    away = log_and_records.LOG.away()
    if away:
        records.write("redirected", **away)
    records.write("environment", **environment.torch_environment(torch))


def _switch(torch: Any, spec: dict[str, Any], records: Records) -> str:
    """Set the fuser, then the knobs, which override it; record the values that are
    read back."""
    wanted = fusers.COMPILER if spec.get("frontend") == "dynamo" else spec["fuser"]
    fuser, why = fusers.choose_fuser(torch, wanted)
    fusers.switch_on(torch, fuser)
    live = fusers.is_on(torch, fuser)
    records.write(
        "fuser", requested=spec["fuser"], effective=fuser, live=live, why=why
    )
    for knob in _turn_knobs(torch, spec["knobs"]):
        records.write(**knob)
    return fuser


def _turn_knobs(torch: Any, wanted: dict[str, str]) -> list[dict[str, Any]]:
    if not wanted:
        return []
    from . import knobs

    return knobs.apply_all(torch, wanted)


def _te_watch(
    spec: dict[str, Any], records: Records, clock: Clock, watch: Watch
) -> te_plans.Waiting:
    """Return the recorder of the plans of te.ops, which starts when te.ops is
    imported."""
    waiting = te_plans.Waiting(records)
    frontend = spec.get("frontend") or "auto"
    if frontend == "te":
        with clock.users_work():
            waiting.imported(te_plans.import_te())
    elif frontend == "auto" and not spec.get("timing"):
        watch.after_import[te_plans.OPS] = waiting.imported
    return waiting


def _compiler_watch(
    torch: Any, spec: dict[str, Any], records: Records, fuser: str
) -> list[Any]:
    """Return the started watch of torch.compile; empty for a run that is timed, or
    that cannot use torch.compile."""
    quiet = spec.get("timing") or spec.get("profile")
    if quiet or not fusers.may_be_compiled(torch, spec, fuser):
        return []
    watch = fusers.compiler_watch(torch, records)
    watch.start()
    return [watch]


def _kernels(torch: Any, spec: dict[str, Any]) -> Any:
    """Context manager for the run of a script: with ``--no-run`` torch.compile
    makes no kernels."""
    if not spec.get("no_run"):
        return contextlib.nullcontext()
    return fusers.without_kernels(torch)


def _end_of_compiled_script(
    spec: dict[str, Any], records: Records, watches: list[Any]
) -> None:
    """Finish the watches. If the fuser was chosen automatically and the script
    compiled graphs, record torch.compile as its fuser."""
    for watch in watches:
        watch.finish()
        if watch.graphs:
            fusers.write_compiled(records, spec, "the program calls torch.compile")


def _bench(spec: dict[str, Any], records: Records, clock: Clock) -> None:
    """Time one variant of a model in one phase, in rounds that the parent
    requests."""
    from .benchmark import Bench

    records.write("started", pid=os.getpid())
    target = spec["target"]
    _set_up_program(spec, ())
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
    _seed(torch, spec)
    loaded = ready(torch, spec, clock)
    model = not_compiled(loaded.model, records.note)
    model = prepared(torch, model, spec)
    records.write(
        "target", how="model", label=loaded.label, signature=signature(model)
    )
    with clock.users_work():
        try:
            shapes = []
            for shape in loaded.shapes:
                shapes.append(_given(torch, positional(model, shape), spec))
        except Refused:
            raise
        except Exception as error:
            raise UserError("inputs") from error
    if spec.get("freeze"):
        model = frozen(
            torch, to_torchscript(torch, model, shapes[0].example, spec["trace"])
        )
    bench = Bench(torch, spec["variant"], model, shapes, spec["phase"], records)
    bench.run(
        spec["control"],
        spec["trace"],
        spec["round_seconds"],
        lambda: _turn_knobs(torch, spec["knobs"]),
    )


def _given(torch: Any, shape: Any, spec: dict[str, Any]) -> Any:
    """The arguments for the steps of one shape; a user's function makes new ones at
    every call."""
    from .benchmark_steps import Given, random_sizes

    if spec["random_sizes"]:
        return random_sizes(torch, shape, spec["seed"] or 0)
    return Given(shape, fixed=shape() is shape())
