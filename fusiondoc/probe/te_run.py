"""Runs a model of ``te.ops`` operators: under each recipe, in training and
inference, then under the profiler.

The profile runs the model with Transformer Engine's fusions, and again without any:
the kernels that an operator launches, and their time on the GPU, show the real gain
of a fusion.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import tempfile
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from . import CANNOT_RUN, Refused, UserError, first_line
from .frontends import note_ignored_options
from .log_and_records import Clock, Records
from .pass_inputs import Shape, backward_from_ones, call, tensors_in
from .passes import Passes
from .step_profile import profiling
from .targets import Ready
from .te_plans import OPS, Watch

RECIPES = {
    "delayed": "DelayedScaling",
    "current": "Float8CurrentScaling",
    "block": "Float8BlockScaling",
    "mxfp8": "MXFP8BlockScaling",
    "nvfp4": "NVFP4BlockScaling",
}
"""Names of ``--recipe`` and their classes in ``transformer_engine.common.recipe``;
"none" leaves the model as it is."""

_WARM_UP = 3
_PROFILED = 5
_MARK = "fusiondoc te "
_PASS = _MARK + "pass"


def recipe_named(name: str) -> Any:
    """The recipe; Refused (status 4) if this Transformer Engine has none of that
    name."""
    if name == "none":
        return None
    kinds = importlib.import_module("transformer_engine.common.recipe")
    kind = getattr(kinds, RECIPES[name], None)
    if kind is None:
        raise Refused(
            "recipe",
            "this Transformer Engine has no %s (--recipe %s)"
            % (RECIPES[name], name),
            "It has: %s."
            % ", ".join(
                [
                    "none",
                    *(name for name in RECIPES if hasattr(kinds, RECIPES[name])),
                ]
            ),
            CANNOT_RUN,
        )
    return kind()


def under(recipe: Any) -> Any:
    """Context manager: Transformer Engine works with the recipe; None changes
    nothing."""
    if recipe is None:
        return contextlib.nullcontext()
    for name, function, argument in (
        ("quantization", "autocast", "recipe"),
        ("quantization", "fp8_autocast", "fp8_recipe"),
        ("fp8", "fp8_autocast", "fp8_recipe"),
    ):
        try:
            enter = getattr(
                importlib.import_module("transformer_engine.pytorch." + name),
                function,
            )
        except (ImportError, AttributeError):
            continue
        return enter(enabled=True, **{argument: recipe})
    raise Refused(
        "recipe",
        "this Transformer Engine has no autocast for recipes",
        None,
        CANNOT_RUN,
    )


def run_te_model(
    torch: Any,
    loaded: Ready,
    spec: dict[str, Any],
    watch: Watch,
    records: Records,
    clock: Clock,
) -> None:
    """Run a model that holds operators of ``te.ops``.

    Raises:
        UserError: the model raised.
        Refused: a recipe is not available.
    """
    records.write("target", how="model", label=loaded.label, signature=None)
    if spec.get("frontend") == "te":
        why = None
    else:
        why = "the model holds te.ops operators"
    records.write(
        "frontend", requested=spec.get("frontend"), effective="te", why=why
    )
    ignored = ("trace", "verify", "no_freeze", "freeze")
    note_ignored_options(records, spec, ignored, "operators of Transformer Engine")
    with clock.users_work():
        TeRun(torch, loaded.model, loaded.shapes, spec, watch, records).run()


class TeRun:
    """The passes of a model. ``model`` is called directly, never scripted."""

    def __init__(
        self,
        torch: Any,
        model: Any,
        shapes: Sequence[Shape],
        spec: dict[str, Any],
        watch: Watch,
        records: Records,
    ) -> None:
        self._torch = torch
        self._model = model
        self._shapes = shapes
        self._runs = spec["runs"]
        self._backward = spec["backward"]
        self._watch = watch
        self._records = records
        self._recipes = []
        for name in spec.get("recipes") or ["none"]:
            self._recipes.append((name, recipe_named(name)))
        self._now: Any = None

    def run(self) -> None:
        """Raises UserError (the model raised) or Refused."""
        self._watch.name(self._model)
        try:
            if self._backward:
                self._mode(True)
            passes = []
            for name, recipe in self._recipes:
                for shape in self._shapes:
                    passes.append(self._under(name, recipe, shape))
            Passes(
                self._torch, self, passes, self._runs, self._backward, self._records
            ).run()
            if self._backward:
                self._inference()
            self._watch.write_sequences(self._model)
            if self._torch.cuda.is_available():
                self._profile()
        finally:
            self._watch.end(self._model)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with under(self._now):
            return self._model(*arguments, **named)

    def parameters(self) -> Iterator[Any]:
        """The model's parameters, whose gradients are cleared between passes."""
        parameters = getattr(self._model, "parameters", None)
        return parameters() if callable(parameters) else iter(())

    def _under(self, name: str, recipe: Any, shape: Shape) -> Shape:
        def arguments() -> Any:
            self._now = recipe
            self._watch.pass_ = (name, self._backward)
            return shape()

        return arguments

    def _mode(self, training: bool) -> None:
        if isinstance(self._model, self._torch.nn.Module):
            self._model.train(training)

    def _inference(self) -> None:
        """Run one pass for each recipe and shape: the plan may differ although the
        objects are the same."""
        self._mode(False)
        try:
            for name, recipe in self._recipes:
                for shape in self._shapes:
                    with self._torch.no_grad():
                        self._call(self._under(name, recipe, shape)())
        finally:
            self._mode(True)

    def _call(self, arguments: Any) -> Any:
        try:
            return call(self, arguments)
        except Exception as error:
            raise UserError("forward") from error

    # -- the profile ----------------------------------------------------------------------------------------

    def _profile(self) -> None:
        """Profile the first shape. A profile that fails is a note, not the end of
        the run."""
        self._watch.counting = False
        for name, recipe in self._recipes:
            make = self._under(name, recipe, self._shapes[0])
            for training in (True, False) if self._backward else (False,):
                for fused in (True, False):
                    try:
                        self._profile_one(make, training, fused)
                    except Exception as error:
                        text = "no profile of %s, recipe %s%s: %s: %s" % (
                            "training" if training else "inference",
                            name,
                            "" if fused else ", without fusion",
                            type(error).__name__,
                            first_line(error),
                        )
                        self._records.note(text)
        if self._backward:
            self._mode(True)

    def _profile_one(
        self, make: Callable[[], Any], training: bool, fused: bool
    ) -> None:
        torch, watch = self._torch, self._watch
        self._mode(training)
        with contextlib.ExitStack() as undo:
            if not fused:
                undo.enter_context(self._without_fusion())
            for _ in range(_WARM_UP):
                self._step(make(), training)
            torch.cuda.synchronize()
            marked: dict[str, tuple[int, int, str, int]] = {}
            for number, (plan, fuser) in list(watch.latest.items()):
                self._mark(undo, number, plan, fuser, marked)
            arguments = [make() for _ in range(_PROFILED)]
            with profiling(torch, cuda=True) as profile:
                for given in arguments:
                    with torch.profiler.record_function(_PASS):
                        self._step(given, training)
                torch.cuda.synchronize()
            marks, whole = _kernels(profile)
        rows = []
        for key, (number, plan, phase, index) in marked.items():
            found = marks.get(key)
            if found is None:
                continue
            rows.append(
                {
                    "fuser": number,
                    "plan": plan,
                    "phase": phase,
                    "entry": index,
                    **found,
                }
            )
        self._records.write(
            "te_profile",
            fused=fused,
            training=training,
            recipe=watch.pass_[0],
            passes=_PROFILED,
            entries=rows,
            **whole,
        )

    def _step(self, arguments: Any, training: bool) -> None:
        torch = self._torch
        with torch.enable_grad() if training else torch.no_grad():
            outputs = tensors_in(torch, call(self, arguments))
        if training:
            backward_from_ones(torch, outputs)
            for tensor in list(self.parameters()) + tensors_in(torch, arguments):
                tensor.grad = None

    def _mark(
        self,
        undo: contextlib.ExitStack,
        number: int,
        plan: int,
        fuser: Any,
        marked: dict[str, tuple[int, int, str, int]],
    ) -> None:
        """Mark the launches of each operator of the plan in the profile, until
        ``undo`` is closed."""
        torch = self._torch
        for phase, planned, method in (
            ("forward", fuser._forward_ops, "fuser_forward"),
            ("backward", fuser._backward_ops, "fuser_backward"),
        ):
            for index, (op, _) in enumerate(
                sorted(planned, key=lambda planned_op: min(planned_op[1]))
            ):
                key = "%s%d %s %d" % (_MARK, number, phase, index)
                marked[key] = (number, plan, phase, index)
                inner = getattr(op, method)
                if method in vars(op):
                    continue  # one object in several plans

                def named(
                    *args: Any, _inner: Any = inner, _key: str = key, **kwargs: Any
                ) -> Any:
                    with torch.profiler.record_function(_key):
                        return _inner(*args, **kwargs)

                vars(op)[method] = named
                undo.callback(vars(op).pop, method, None)

    @contextlib.contextmanager
    def _without_fusion(self) -> Iterator[None]:
        """Context manager: no fusion function runs, so every operator is on its
        own. Plans made inside are not recorded as the user's."""
        fuser = importlib.import_module(OPS + ".fuser").OperationFuser
        names = []
        for name in ("forward", "backward", "forward_backward"):
            if hasattr(fuser, name + "_fusion_functions"):
                names.append(name)
        kept: dict[str, Any] = {}
        watch = self._watch
        latest = dict(watch.latest)
        watch.unfused = True
        watch.latest.clear()
        if names:
            for name in names:
                kept[name + "_fusion_functions"] = vars(fuser)[
                    name + "_fusion_functions"
                ]
                setattr(fuser, name + "_fusion_functions", [])
        elif hasattr(fuser, "fuse_ops"):
            kept["fuse_ops"] = vars(fuser)["fuse_ops"]
            fuser.fuse_ops = lambda self: None
        else:
            for name in ("_fuse_forward_ops", "_fuse_backward_ops"):
                kept[name] = vars(fuser)[name]
                setattr(fuser, name, classmethod(lambda cls, ops, *rest: ops))
        self._forget_plans()
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(fuser, name, value)
            self._forget_plans()
            watch.unfused = False
            watch.latest.clear()
            watch.latest.update(latest)

    def _forget_plans(self) -> None:
        """Make sequences build their fusers anew at the next call, also those that
        a model holds where ``modules()`` does not see them, as Megatron's
        TEFusedMLP does."""
        for sequence in self._watch.sequences.values():
            sequence._module_groups = None


class _Mark(NamedTuple):
    """A named block on the host, made by this file."""

    thread: Any
    start: float
    end: float
    """Start and end, both in microseconds."""
    name: str


def _kernels(profile: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """A row for each mark, and one for all passes: the median over its calls of the
    microseconds on the GPU, and the kernels, copies and fills of one call. From the
    trace: a launch belongs to the innermost mark around it on its thread, and its
    kernel has the same correlation number."""
    trace = _Trace(_complete_events(profile))
    calls: list[list[Any]] = [[] for _ in trace.marks]
    for thread, at, correlation in trace.launches:
        number = trace.innermost_mark(thread, at)
        if number is not None:
            calls[number].extend(trace.work.get(correlation, ()))
    calls_by_name: dict[str, list[list[Any]]] = {}
    for mark, launched in zip(trace.marks, calls):
        calls_by_name.setdefault(mark.name, []).append(launched)
    every = []
    for group in trace.work.values():
        every.extend(group)
    passes = max(1, trace.passes)
    whole = {
        "kernels": sum(event[0] == "kernel" for event in every) / passes,
        "us": round(sum(event[2] for event in every) / passes, 3),
    }
    return {name: _row(each) for name, each in calls_by_name.items()}, whole


class _Trace:
    """The events of a profile's trace that are used.

    Attributes: marks: blocks of operators. passes: number of blocks of whole
        passes. launches: thread, microseconds and correlation number. work:
        correlation number -> kernels, copies and fills on the GPU: kind, name,
        microseconds, details.
    """

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.marks: list[_Mark] = []
        self.passes = 0
        self.launches: list[tuple[Any, float, Any]] = []
        self.work: dict[Any, list[tuple[str, str, float, dict[str, Any]]]] = {}
        for event in events:
            self._add(event)

    def _add(self, event: dict[str, Any]) -> None:
        kind, name, details = (
            event.get("cat"),
            str(event.get("name")),
            event.get("args", {}),
        )
        correlation = details.get("correlation")
        if kind == "user_annotation" and name == _PASS:
            self.passes += 1
        elif kind == "user_annotation" and name.startswith(_MARK):
            self.marks.append(
                _Mark(event["tid"], event["ts"], event["ts"] + event["dur"], name)
            )
        elif kind in ("cuda_runtime", "cuda_driver") and correlation is not None:
            self.launches.append((event["tid"], event["ts"], correlation))
        elif kind in ("kernel", "gpu_memcpy", "gpu_memset"):
            self.work.setdefault(correlation, []).append(
                (kind, name, float(event["dur"]), details)
            )

    def innermost_mark(self, thread: Any, at: float) -> int | None:
        """Index of the innermost mark at a moment of a thread; None if there is
        none."""
        found: int | None = None
        for number, mark in enumerate(self.marks):
            around = mark.thread == thread and mark.start <= at <= mark.end
            if around and (found is None or mark.start > self.marks[found].start):
                found = number
        return found


def _complete_events(profile: Any) -> list[dict[str, Any]]:
    """The events of a profile's trace that have a duration."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profile.export_chrome_trace(path)
        with open(path, "rb") as file:
            events = json.loads(file.read().decode("utf-8", "replace")).get(
                "traceEvents", []
            )
    finally:
        os.unlink(path)
    return [event for event in events if event.get("ph") == "X"]


def _row(calls: list[list[Any]]) -> dict[str, Any]:
    times = sorted(sum(event[2] for event in call) for call in calls)
    middle = sorted(calls, key=lambda call: sum(event[2] for event in call))[
        len(calls) // 2
    ]
    return {
        "calls": len(calls),
        "us": [
            round(times[0], 3),
            round(times[len(times) // 2], 3),
            round(times[-1], 3),
        ],
        "kernels": [
            {
                "name": name[:200],
                "kind": kind,
                "us": round(us, 3),
                "grid": details.get("grid"),
                "block": details.get("block"),
                "registers": details.get("registers per thread"),
            }
            for kind, name, us, details in middle
        ],
    }
