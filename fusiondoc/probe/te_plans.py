"""Plans of Transformer Engine's operation fuser, and the facts that its rules read:
a snapshot after each call of ``te.ops`` operators.

Read from ``transformer_engine/pytorch/ops/fuser.py`` of 1.13 to 2.20: every fuser
has ``_basic_ops``, ``_forward_ops`` and ``_backward_ops`` (lists of an operator and
the numbers of its basic operators). The plan depends on the recipe and on which
operators need gradients, and changes on one object from call to call; so a plan is
recorded the first time that a fuser has it. No conclusion is drawn here.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

from . import CANNOT_RUN, Refused
from .log_and_records import Records
from .replaced import Replaced


def world_size(torch: Any) -> int | None:
    """Number of processes of torch.distributed; None if that is not in use."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_world_size())


def first_backward(fuser: Any, ops: Any, args: tuple[Any, ...], torch: Any) -> int:
    """The first operator that a backward pass reaches, as ``maybe_fuse_ops``
    determines it; before 2.7 there is no such attribute."""
    known: Any = getattr(fuser, "first_op_requiring_backward", None)
    if known is not None:
        return int(known)
    if not torch.is_grad_enabled():
        return len(ops)
    if args and args[0].requires_grad:
        return 0
    for index, op in enumerate(ops):
        if any(parameter.requires_grad for parameter in op.parameters()):
            return index
    return len(ops)


def entries(planned: Any) -> list[dict[str, Any]]:
    """A row for each operator of a plan, in the order of the forward pass: 1.9 to
    2.12 keep the operators of the backward pass in execution order."""
    rows = []
    for op, indexes in planned:
        rows.append(
            {
                "kind": type(op).__name__,
                "operators": sorted(int(index) for index in indexes),
                "fused": bool(op.is_fused_op),
                "own": not type(op).__module__.startswith("transformer_engine."),
            }
        )
    return sorted(rows, key=lambda row: row["operators"])


def facts_of(op: Any) -> dict[str, Any]:
    """The facts of an operator that the rules of the fuser read."""
    weight: Any = getattr(op, "weight", None)
    options = getattr(op, "_userbuffers_options", None)
    return {
        "in_place": _plain(getattr(op, "_in_place", None)),
        "dtype": str(weight.dtype).replace("torch.", "")
        if hasattr(weight, "dtype")
        else None,
        "tensor_parallel": _plain(getattr(op, "tensor_parallel_mode", None)),
        "tensor_parallel_size": _plain(getattr(op, "tensor_parallel_size", None)),
        "process_group_size": _plain(getattr(op, "process_group_size", None)),
        "userbuffers": options is not None,
        "grad_quantizer": _quantizes(op),
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _quantizes(op: Any) -> bool | None:
    """True if an operator takes the gradient of its output quantized:
    ``get_grad_output_quantizer`` (2.8 and later), else ``num_quantizers`` (2.6 and
    2.7); None if it has neither."""
    getter = getattr(op, "get_grad_output_quantizer", None)
    if callable(getter):
        return getter() is not None
    number = getattr(op, "num_quantizers", None)
    if callable(number):
        return bool(number("backward") > 0)
    return None


def users_line(frame: Any) -> str | None:
    """``model.py:12``: the first frame outside Transformer Engine and torch."""
    for _ in range(60):
        if frame is None:
            return None
        name = frame.f_code.co_filename
        parts = name.replace(os.sep, "/").split("/")
        if (
            "transformer_engine" not in parts
            and "torch" not in parts
            and "_fusiondoc_probe" not in frame.f_globals.get("__name__", "")
        ):
            return "%s:%d" % (_shown(name), frame.f_lineno)
        frame = frame.f_back
    return None


def _shown(name: str) -> str:
    """A path, relative to the current folder if it is below that."""
    path = os.path.abspath(name)
    here = os.getcwd() + os.sep
    if path.startswith(here):
        return path[len(here) :]
    return path


OPS = "transformer_engine.pytorch.ops"

_MOST_SEQUENCES = 1_000
_MOST_PLANS = 16
"""Most plans of one fuser whose facts are kept: one for each recipe and set of
operators with gradients."""

_RULES_RAN = "_fusiondoc_asked"
"""Attribute of a fuser: its rules ran for the plan of this call."""
_MADE = "_fusiondoc_made"
"""Attribute of a fuser that holds the facts of its plans, so that they are freed
with the transient fusers of ``op(x)``."""

_INSTALL = (
    "Install it in that interpreter, which needs a GPU machine with CUDA: pip install --no-build-isolation "
    "'transformer_engine[pytorch]'; or name an interpreter that has it: --python PATH."
)


def import_te() -> Any:
    """``transformer_engine.pytorch.ops``; Refused (status 4) without it."""
    try:
        return importlib.import_module(OPS)
    except (
        Exception
    ) as error:  # its own checks raise RuntimeError and FileNotFoundError
        message = str(error).strip().split("\n")[0]
        raise Refused(
            "import_te",
            "%s cannot import %s: %s: %s"
            % (sys.executable, OPS, type(error).__name__, message),
            _INSTALL,
            CANNOT_RUN,
        ) from None


class Waiting:
    """The watch of a program that may import Transformer Engine at any time: it
    begins before the program makes operators, to record the lines that do."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.watch: Watch | None = None

    def imported(self, te: Any) -> Watch:
        """Called after the import of ``transformer_engine.pytorch.ops``; returns
        the started watch."""
        if self.watch is None:
            self.watch = Watch(te, self._records)
            self.watch.on()
        return self.watch

    def end(self, model: Any) -> None:
        """Write the records of the end of the run."""
        if self.watch is not None:
            self.watch.end(model)

    def stop(self) -> None:
        """Restore Transformer Engine."""
        if self.watch is not None:
            self.watch.stop()


class Watch:
    """Records the plans of every fuser that is called while the watch is on."""

    def __init__(self, te: Any, records: Records) -> None:
        self._te = te
        self._records = records
        self._fuser = importlib.import_module(OPS + ".fuser")
        self._op = importlib.import_module(OPS + ".op")
        self._numbers: dict[tuple[int, ...], int] = {}
        self._kept: list[Any] = []  # so that no id is used again
        self._plans: dict[Any, int] = {}
        self.calls: dict[int, int] = {}
        self.latest: dict[int, tuple[int, Any]] = {}
        """Number of a fuser -> its latest plan and the fuser."""
        self.pass_: tuple[str | None, bool] = (None, False)
        """Name of the recipe that fusiondoc set, and whether it is a training
        pass."""
        self.recording = True
        self.counting = True
        self.unfused = False
        """Whether fusion is switched off for a profile: then the plans are not the
        program's."""
        self._paths: dict[int, str] = {}
        self.sequences: dict[int, Any] = {}
        """The sequences that were called, by their ids."""
        self._written_sequences: set[int] = set()
        self._made_at: dict[int, str] = {}
        self._listed: dict[str, list[str]] = {}
        self._replaced = Replaced()

    def on(self) -> None:
        """Start watching."""
        fuser, called = (
            self._fuser.OperationFuser,
            self._fuser.OperationFuser.__call__,
        )
        watch = self

        @functools.wraps(called)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return called(self, *args, **kwargs)
            finally:
                watch._seen(self, args)

        self._replaced.put(fuser, "__call__", call)
        made = self._op.BasicOperation.__init__

        @functools.wraps(made)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            source = users_line(sys._getframe(1))
            if source is not None:
                watch._made_at[id(self)] = source
                watch._kept.append(self)

        self._replaced.put(self._op.BasicOperation, "__init__", init)
        fuses = getattr(
            fuser, "fuse_ops", None
        )  # to 2.6; not called for an operator on its own
        if fuses is not None:

            @functools.wraps(fuses)
            def fuse(self: Any) -> None:
                vars(self)[_RULES_RAN] = True
                fuses(self)

            self._replaced.put(fuser, "fuse_ops", fuse)
        began, forward = self._te.Sequential.__init__, self._te.Sequential.forward

        @functools.wraps(began)
        def sequence(self: Any, *args: Any, **kwargs: Any) -> None:
            began(self, *args, **kwargs)
            source = users_line(sys._getframe(1))
            if source is not None:
                watch._made_at[id(self)] = source

        @functools.wraps(forward)
        def through(self: Any, *args: Any, **kwargs: Any) -> Any:
            if len(watch.sequences) < _MOST_SEQUENCES:
                watch.sequences.setdefault(id(self), self)
            return forward(self, *args, **kwargs)

        self._replaced.put(self._te.Sequential, "__init__", sequence)
        self._replaced.put(self._te.Sequential, "forward", through)
        self._listed = {
            name: [fusion["name"] for fusion in found]
            for name, found in self._fusions().items()
        }
        self._records.write(
            "te_package", version=_version(), fusions=self._fusions()
        )

    def stop(self) -> None:
        """Restore Transformer Engine."""
        self._replaced.take_back()

    def name(self, model: Any) -> None:
        """Learn the module paths of a model."""
        for path, module in _named(model):
            self._paths.setdefault(id(module), path)
            self._kept.append(module)

    def _fusions(self) -> dict[str, list[dict[str, str]]]:
        """The fusion functions of each pass in their order, from 2.13 on, from a
        registry to which programs may add."""
        found = {}
        for name in ("forward", "backward", "forward_backward"):
            listed = getattr(
                self._fuser.OperationFuser, name + "_fusion_functions", None
            )
            if listed is not None:
                found[name] = [
                    {
                        "name": str(
                            getattr(function, "__qualname__", repr(function))
                        ),
                        "module": str(getattr(function, "__module__", "")),
                    }
                    for function in listed
                ]
        return found

    # -- after a call ---------------------------------------------------------------------------------------

    def _seen(self, fuser: Any, args: tuple[Any, ...]) -> None:
        try:
            self._snapshot(fuser, args)
        except Exception as error:  # a layout that this does not know
            if self.recording:
                text = "the plan of Transformer Engine %s cannot be read: %s: %s"
                self._records.note(text % (_version(), type(error).__name__, error))
                self.recording = False

    def _snapshot(self, fuser: Any, args: tuple[Any, ...]) -> None:
        number = self._number(fuser)
        torch = importlib.import_module("torch")
        forward, backward = (
            getattr(fuser, "_forward_ops", None),
            getattr(fuser, "_backward_ops", None),
        )
        if forward is None or backward is None or not self.recording:
            return
        if self.unfused:
            self.latest[number] = (0, fuser)
            return
        ops = fuser._basic_ops
        made = self._as_made(
            fuser, forward, [facts_of(op) for op in ops], world_size(torch)
        )
        plan = {
            "fuser": number,
            "grad": bool(torch.is_grad_enabled()),
            "training": any(op.training for op in ops),
            "recipe": self._recipe(),
            "first_backward": first_backward(fuser, ops, args, torch),
            "device": str(args[0].device.type) if args else None,
            **made,
            "forward": entries(forward),
            "backward": entries(backward),
        }
        key = repr(plan)
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = len(self._plans) + 1
            self._records.write("te_plan", plan=known, **plan)
        self.calls[known] = self.calls.get(known, 0) + self.counting
        self.latest[number] = (known, fuser)

    def _as_made(
        self, fuser: Any, planned: Any, facts: Any, processes: int | None
    ) -> dict[str, Any]:
        """Return the facts at the time when the plan was made. A fuser keeps its
        plans by recipe and
        gradients: its rules do not run again when weights change their type or
        fusions are registered; ``now`` then has the current types."""
        kept = vars(fuser).setdefault(_MADE, {})
        if id(planned) not in kept:
            listed = self._fusions()
            now = {}
            for kind, found in listed.items():
                now[kind] = [fusion["name"] for fusion in found]
            if len(kept) >= _MOST_PLANS:
                del kept[next(iter(kept))]
            kept[id(planned)] = (
                planned,
                {  # the list too, so that no id is used again
                    "operators": facts,
                    "world_size": processes,
                    "own_asked": [
                        fusion["name"]
                        for found in listed.values()
                        for fusion in found
                        if _is_own(fusion)
                    ],
                    "taken_out": [
                        name
                        for kind, names in self._listed.items()
                        for name in names
                        if name not in now.get(kind, ())
                    ],
                },
            )
        known = kept[id(planned)][1]
        types, then = [
            [operator["dtype"] for operator in found]
            for found in (facts, known["operators"])
        ]
        rules_ran = not hasattr(fuser, "fuse_ops") or _RULES_RAN in vars(fuser)
        return {
            **known,
            "asked": rules_ran,
            "now": types if types != then else None,
        }

    def _number(self, fuser: Any) -> int:
        """The number of a pipeline: its fuser is made anew when its sequence
        changes, and for every bare ``op(x)``."""
        key = tuple(id(op) for op in fuser._basic_ops)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._kept.append(fuser)
            operators = []
            for op in fuser._basic_ops:
                operators.append(
                    {
                        "kind": type(op).__name__,
                        "path": self._paths.get(id(op)),
                        "source": self._made_at.get(id(op)),
                        "bases": [
                            base.__name__
                            for base in type(op).__mro__
                            if "ops.basic" in base.__module__
                        ],
                        "own": not type(op).__module__.startswith(
                            "transformer_engine."
                        ),
                    }
                )
            self._records.write(
                "te_fuser", fuser=self._numbers[key], operators=operators
            )
        return self._numbers[key]

    def _recipe(self) -> dict[str, Any] | None:
        """The recipe of this call; None without low precision."""
        state = getattr(self._fuser, "FP8GlobalStateManager", None)
        if state is None or not state.is_fp8_enabled():
            return None
        recipe = state.get_fp8_recipe()
        tests = (
            "delayed",
            "float8_current_scaling",
            "float8_block_scaling",
            "mxfp8",
            "nvfp4",
            "custom",
        )
        kinds = []
        for name in tests:
            if callable(getattr(recipe, name, None)) and getattr(recipe, name)():
                kinds.append(name)
        return {
            "kind": type(recipe).__name__,
            "is": kinds[0] if kinds else None,
            "backward_override": getattr(recipe, "backward_override", None),
        }

    def write_sequences(self, model: Any) -> None:
        """Write the parts of each sequence once, before a profile makes their
        fusers anew."""
        found = []
        for path, module in _named(model):
            if isinstance(module, self._te.Sequential):
                found.append((path, module))
        inside = {id(module) for _, module in found}
        for key, module in self.sequences.items():
            if key not in inside:
                found.append(("", module))
        for path, module in found:
            if (
                getattr(module, "_module_groups", None)
                and id(module) not in self._written_sequences
            ):
                self._written_sequences.add(id(module))
                self._kept.append(module)
                source = self._made_at.get(id(module))
                self._records.write(
                    "te_sequence",
                    path=path,
                    source=source,
                    parts=self._parts(path, module),
                )

    def end(self, model: Any) -> None:
        """Write how often each plan was used, and the parts of each sequence."""
        self._records.write(
            "te_calls",
            calls={str(plan): count for plan, count in self.calls.items()},
        )
        self._records.write(
            "te_package", version=_version(), fusions=self._fusions()
        )
        self.write_sequences(model)

    def _parts(self, path: str, sequence: Any) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        names = {id(module): name for name, module in sequence.named_children()}
        for group in sequence._module_groups:
            if isinstance(group, self._fuser.OperationFuser):
                parts.append({"fuser": self._number(group)})
            else:
                name = names.get(id(group), "?")
                parts.append(
                    {
                        "fuser": None,
                        "kind": type(group).__name__,
                        "path": path + "." + name if path else name,
                        "module": type(group).__module__,
                    }
                )
        return parts


def _named(model: Any) -> list[tuple[str, Any]]:
    if hasattr(model, "named_modules"):
        return list(model.named_modules())
    return []


def _is_own(fusion: dict[str, str]) -> bool:
    return not fusion["module"].startswith("transformer_engine.")


def _version() -> str | None:
    """The version of the package: ``transformer_engine.__version__``, else from its
    metadata, else from its file."""
    found = getattr(sys.modules.get("transformer_engine"), "__version__", None)
    if found is None:
        try:
            found = importlib.import_module("importlib.metadata").version(
                "transformer_engine"
            )
        except Exception:
            found = None
    if found is None:
        return None
    return str(found)
