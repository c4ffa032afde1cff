"""The knobs: the functions that set them, and code to apply one and to try all.

The catalogue of the package describes the same names; a test holds the two
together, because nothing here may import the package.

A class of knobs fits one shape of the functions in ``torch._C``, or the attributes
of a configuration. Its ``attempt`` finds out whether the knob does anything: it
sets another value, reads it back and puts the old one back. ``hasattr`` would not
do: from torch 2.2 on nvFuser's functions exist, take any value, do nothing.
"""

from __future__ import annotations

import importlib
from typing import Any, Iterable, NamedTuple

from . import CANNOT_RUN, Refused, first_line
from .knob_values import parse, show
from .log_and_records import KeptStderr


class KnobOutcome(NamedTuple):
    """``effective``: the current value of the knob (None if torch cannot read it).
    ``live``: whether setting it has any effect (None if that cannot be seen).
    ``why``: the reason for a None or False, in a sentence."""

    effective: Any
    live: bool | None
    why: str | None = None


_CANNOT_READ = "set; torch gives no way to read it back"


class OfTorch:
    """Knobs set by functions of ``torch._C``."""

    owner = "torch._C"
    needs: tuple[str, ...] = ()

    def home(self, torch: Any) -> Any:
        """The object that has the functions; None if this torch has no such
        module."""
        return torch._C

    def missing(self, torch: Any) -> str | None:
        """The first name that this torch does not have."""
        home = self.home(torch)
        if home is None:
            return self.owner
        lacks = next((name for name in self.needs if not _has(home, name)), None)
        if lacks is None:
            return None
        return "%s.%s" % (self.owner, lacks)


def _has(home: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(home, name):
            return False
        home = getattr(home, name)
    return True


class Readable(OfTorch):
    """A knob with a setter and a getter."""

    def __init__(self, setter: str, getter: str, kind: str = "switch") -> None:
        self.setter, self.getter, self.kind = setter, getter, kind
        self.needs = (setter, getter)

    def get(self, torch: Any) -> Any:
        """The current value; None if torch returns none, as a no-op does."""
        return _typed(self.kind, getattr(torch._C, self.getter)())

    def put(self, torch: Any, value: Any) -> None:
        getattr(torch._C, self.setter)(value)

    def attempt(self, torch: Any) -> KnobOutcome:
        old = self.get(torch)
        other = next(trial for trial in _TRIALS[self.kind] if trial != old)
        why = None
        try:
            self.put(torch, other)
            seen = self.get(torch)
        except RuntimeError as error:
            return KnobOutcome(old, False, _described(error))
        finally:
            if old is not None:
                self.put(torch, old)
        if seen is None:
            why = "it takes a value and answers with none: a no-op"
        elif seen != other:
            why = "it stays %s when set to %s" % (show(seen), show(other))
        return KnobOutcome(old, seen == other, why)

    def apply(self, torch: Any, value: Any) -> KnobOutcome:
        trial = self.attempt(torch)
        self.put(torch, value)
        seen = self.get(torch)
        if trial.live and seen != value:
            return KnobOutcome(
                seen,
                False,
                "it reads %s after setting %s" % (show(seen), show(value)),
            )
        return KnobOutcome(seen, trial.live, trial.why)


class Swap(Readable):
    """A knob whose setter returns the old value, without a getter: to read it, a
    value is set and the old one restored."""

    def __init__(self, setter: str, kind: str = "switch") -> None:
        super().__init__(setter, setter, kind)

    def get(self, torch: Any) -> Any:
        swap = getattr(torch._C, self.setter)
        old = _typed(self.kind, swap(_TRIALS[self.kind][0]))
        if old is not None:
            swap(old)
        return old


class Depth(Readable):
    """The bail-out depth: the older way to set the fusion strategy; it is the sum
    of the strategy's counts."""

    def __init__(self) -> None:
        super().__init__(
            "_jit_set_bailout_depth", "_jit_set_fusion_strategy", "count"
        )
        self.strategy = Swap("_jit_set_fusion_strategy", "strategy")

    def get(self, torch: Any) -> Any:
        steps = self.strategy.get(torch)
        if steps is None:
            return None
        return sum(count for _, count in steps)

    def attempt(self, torch: Any) -> KnobOutcome:
        steps = self.strategy.get(torch)
        try:
            return super().attempt(torch)
        finally:
            self.strategy.put(torch, steps)


class Configured(Readable):
    """An attribute of ``torch._inductor.config``, or of a part of it:
    ``triton.prefer_nd_tiling``.

    A value that is set holds in its thread alone since torch 2.13
    (torch/utils/_config_module.py), and autograd compiles gradients of a GPU in a
    thread of its own: the default is set as well, which all see.
    """

    owner = "torch._inductor.config"

    def __init__(self, path: str, kind: str = "switch") -> None:
        super().__init__(path, path, kind)
        self.needs = (path,)

    def home(self, torch: Any) -> Any:
        try:
            return importlib.import_module(self.owner)
        except ImportError:
            return None

    def get(self, torch: Any) -> Any:
        value = self.home(torch)
        for name in self.getter.split("."):
            value = getattr(value, name)
        return _typed(self.kind, value)

    def put(self, torch: Any, value: Any) -> None:
        config = part = self.home(torch)
        *parts, last = self.setter.split(".")
        for name in parts:
            part = getattr(part, name)
        setattr(part, last, value)
        entry: Any = getattr(config, "_config", {}).get(self.setter)
        if hasattr(entry, "default"):
            entry.default = value


class Blind(OfTorch):
    """A knob with a setter whose value cannot be read back."""

    def __init__(self, setter: str, kind: str) -> None:
        self.setter, self.kind = setter, kind
        self.needs = (setter,)

    def attempt(self, torch: Any) -> KnobOutcome:
        return KnobOutcome(
            None, None, "not tried: torch gives no way to read it back"
        )

    def apply(self, torch: Any, value: Any) -> KnobOutcome:
        getattr(torch._C, self.setter)(value)
        return KnobOutcome(None, None, _CANNOT_READ)


class Inlining(Blind):
    """Whether small gradient graphs are inlined again into the graph around them:
    observed by running one."""

    def __init__(self) -> None:
        super().__init__("_debug_set_autodiff_subgraph_inlining", "switch")

    def attempt(self, torch: Any) -> KnobOutcome:
        put = getattr(torch._C, self.setter)
        old = self._observe(torch)
        put(not old)
        seen = self._observe(torch)
        put(old)
        return KnobOutcome(
            old,
            seen != old,
            None if seen != old else "the plan of a small function does not change",
        )

    @staticmethod
    def _observe(torch: Any) -> bool:
        """Run ``x * x`` until its plan is made: a gradient graph of one operator
        stays in the plan only if it is not inlined (measured on torch 1.12.1 and
        2.13)."""
        fuser = torch._C._jit_texpr_fuser_enabled()
        torch._C._jit_set_texpr_fuser_enabled(False)
        try:
            unit = torch.jit.CompilationUnit("def square(x):\n    return x * x\n")
            x = torch.ones(2, requires_grad=True)
            for _ in range(torch._C._jit_get_num_profiled_runs() + 1):
                unit.square(x)
            graph = torch._C._last_executed_optimized_graph()
        finally:
            torch._C._jit_set_texpr_fuser_enabled(fuser)
        return not list(graph.findAllNodes("prim::DifferentiableGraph"))


class Skipped(Blind):
    """The operators that nvFuser's parser leaves out.

    ``_jit_set_nvfuser_skip_node_kind(operator, flip)`` returns whether the operator
    was left out, and changes that if ``flip`` (parser.cpp, querySkipSymbolSet;
    measured on 1.12.1). The whole list cannot be read.
    """

    def __init__(self) -> None:
        super().__init__("_jit_set_nvfuser_skip_node_kind", "operators")

    def attempt(self, torch: Any) -> KnobOutcome:
        skip = getattr(torch._C, self.setter)
        old = skip("aten::add", True)
        seen = skip("aten::add", True)
        live = isinstance(old, bool) and seen is not old
        return KnobOutcome(
            None,
            live,
            None if live else "it takes a value and answers with none: a no-op",
        )

    def apply(self, torch: Any, value: Any) -> KnobOutcome:
        trial = self.attempt(torch)
        if not trial.live:
            return trial
        skip = getattr(torch._C, self.setter)
        for operator in value:
            if not skip(operator, False):
                skip(operator, True)
        return KnobOutcome(value, all(skip(operator, False) for operator in value))


class Callback(OfTorch):
    """The function that nvFuser calls with fused and unfused results: only a
    program can give one."""

    kind = "function"
    needs = (
        "_jit_nvfuser_set_comparison_callback",
        "_jit_nvfuser_clear_comparison_callback",
    )

    def attempt(self, torch: Any) -> KnobOutcome:
        torch._C._jit_nvfuser_clear_comparison_callback()
        return KnobOutcome(
            None, None, "only a fused run on a GPU shows whether it is called"
        )

    def apply(self, torch: Any, value: Any) -> KnobOutcome:
        raise ValueError(
            "it takes a Python function: call torch._C.%s in your own program"
            % self.needs[0]
        )


_TRIALS: dict[str, tuple[Any, ...]] = {
    "switch": (True, False),
    "count": (3, 4),
    "integer": (3, 4),
    "ratio": (0.5, 0.25),
    "text": ("fusiondoc_tries_this", ""),
    "strategy": ([("STATIC", 3)], [("STATIC", 4)]),
}
"""Two values for each kind, so that one always differs from the current value."""


def _described(error: BaseException) -> str:
    """The first line of an exception's message, or its class if that is empty."""
    return first_line(error) or type(error).__name__


def _typed(kind: str, value: Any) -> Any:
    wanted: Any = {
        "switch": bool,
        "text": str,
        "strategy": list,
        "ratio": float,
    }.get(kind, int)
    if isinstance(value, wanted):
        return value
    return None


KNOBS: dict[str, Any] = {
    "nvfuser": Readable("_jit_set_nvfuser_enabled", "_jit_nvfuser_enabled"),
    "single_node": Readable(
        "_jit_set_nvfuser_single_node_mode", "_jit_nvfuser_single_node_mode"
    ),
    "horizontal": Readable(
        "_jit_set_nvfuser_horizontal_mode", "_jit_nvfuser_horizontal_mode"
    ),
    "guard": Swap("_jit_set_nvfuser_guard_mode"),
    "skip_node_kind": Skipped(),
    "comparison_callback": Callback(),
    "nnc": Readable("_jit_set_texpr_fuser_enabled", "_jit_texpr_fuser_enabled"),
    "nnc_dynamic_shapes": Readable(
        "_jit_set_texpr_dynamic_shape_enabled", "_jit_texpr_dynamic_shape_enabled"
    ),
    "nnc_reductions": Readable(
        "_jit_set_texpr_reductions_enabled", "_jit_texpr_reductions_enabled"
    ),
    "nnc_fallback": Readable(
        "_jit_texpr_set_fallback_allowed", "_jit_texpr_fallback_allowed"
    ),
    "nnc_must_use_llvm": Readable(
        "_jit_set_te_must_use_llvm_cpu", "_jit_get_te_must_use_llvm_cpu"
    ),
    "nnc_block_code": Readable(
        "_jit_set_te_generate_block_code", "_jit_get_te_generate_block_code"
    ),
    "nnc_cuda_loop_levels": Readable(
        "_jit_set_te_cuda_pointwise_loop_levels",
        "_jit_get_te_cuda_pointwise_loop_levels",
        "integer",
    ),
    "nnc_cuda_block_count": Readable(
        "_jit_set_te_cuda_pointwise_block_count",
        "_jit_get_te_cuda_pointwise_block_count",
        "integer",
    ),
    "nnc_cuda_block_size": Readable(
        "_jit_set_te_cuda_pointwise_block_size",
        "_jit_get_te_cuda_pointwise_block_size",
        "integer",
    ),
    "fuse_on_cpu": Readable(
        "_jit_override_can_fuse_on_cpu", "_jit_can_fuse_on_cpu"
    ),
    "fuse_on_gpu": Readable(
        "_jit_override_can_fuse_on_gpu", "_jit_can_fuse_on_gpu"
    ),
    "fusion_group_inlining": Readable(
        "_debug_set_fusion_group_inlining", "_debug_get_fusion_group_inlining"
    ),
    "onednn": Readable("_jit_set_llga_enabled", "_jit_llga_enabled"),
    "fuse_on_cpu_legacy": Readable(
        "_jit_override_can_fuse_on_cpu_legacy", "_jit_can_fuse_on_cpu_legacy"
    ),
    "max_fusion_size": Configured("max_fusion_size", "count"),
    "score_fusion_memory_threshold": Configured(
        "score_fusion_memory_threshold", "count"
    ),
    "min_overlap_ratio": Configured("min_overlap_ratio", "ratio"),
    "aggressive_fusion": Configured("aggressive_fusion"),
    "loop_ordering_after_fusion": Configured("loop_ordering_after_fusion"),
    "realize_reads_threshold": Configured("realize_reads_threshold", "count"),
    "split_reductions": Configured("split_reductions"),
    "epilogue_fusion": Configured("epilogue_fusion"),
    "prologue_fusion": Configured("prologue_fusion"),
    "max_autotune_gemm": Configured("max_autotune_gemm"),
    "benchmark_fusion": Configured("benchmark_fusion"),
    "combo_kernels": Configured("combo_kernels"),
    "epilogue_fusion_user_defined_triton_kernel": Configured(
        "epilogue_fusion_user_defined_triton_kernel"
    ),
    "cpp.max_horizontal_fusion_size": Configured(
        "cpp.max_horizontal_fusion_size", "count"
    ),
    "triton.cooperative_reductions": Configured("triton.cooperative_reductions"),
    "triton.prefer_nd_tiling": Configured("triton.prefer_nd_tiling"),
    "triton.tiling_prevents_pointwise_fusion": Configured(
        "triton.tiling_prevents_pointwise_fusion"
    ),
    "triton.tiling_prevents_reduction_fusion": Configured(
        "triton.tiling_prevents_reduction_fusion"
    ),
    "triton.mix_order_reduction": Configured("triton.mix_order_reduction"),
    "autodiff_inlining": Inlining(),
    "profiled_runs": Readable(
        "_jit_set_num_profiled_runs", "_jit_get_num_profiled_runs", "count"
    ),
    "fusion_strategy": Swap("_jit_set_fusion_strategy", "strategy"),
    "bailout_depth": Depth(),
    "profiling_executor": Swap("_jit_set_profiling_executor"),
    "profiling_mode": Swap("_jit_set_profiling_mode"),
    "graph_optimize": Readable(
        "_set_graph_executor_optimize", "_get_graph_executor_optimize"
    ),
    "log_level": Readable(
        "_jit_set_logging_option", "_jit_get_logging_option", "text"
    ),
    "log_stream": Blind("_jit_set_logging_stream", "stream"),
}

_WARNS = ("_jit_set_nvfuser", "_jit_nvfuser", "_jit_set_bailout_depth")
"""Prefixes of functions that write to stderr on some versions of torch; only for
these is stderr captured."""


def apply(torch: Any, name: str, value: str) -> dict[str, Any]:
    """Set one knob for the rest of the process and read it back.

    Returns the record ``{"record": "knob", "name", "requested", "effective",
    "live", "why"}``: ``effective`` is the value read back as text (None if torch
    gives no way), ``live`` whether setting it has any effect (None if that cannot
    be seen). If it could not be set at all, ``error`` gives the reason in one
    sentence.
    """
    knob = KNOBS.get(name)
    if knob is None:
        return _record(
            name,
            value,
            KnobOutcome(None, False),
            error="there is no knob %r" % name,
        )
    missing = knob.missing(torch)
    if missing:
        return _record(
            name,
            value,
            KnobOutcome(None, False),
            error="this torch has no " + missing,
        )
    try:
        wanted = parse(knob.kind, value)
        outcome, warnings = _hushed(knob, lambda: knob.apply(torch, wanted))
    except (ValueError, TypeError, RuntimeError) as error:
        return _record(
            name, value, KnobOutcome(None, False), error=_described(error)
        )
    return _record(name, value, _with_warnings(outcome, warnings))


def apply_all(torch: Any, values: dict[str, str]) -> list[dict[str, Any]]:
    """Set the knobs of a request, given by name; return the record of each.

    Raises:
        Refused: a knob could not be set.
    """
    rows = [apply(torch, name, value) for name, value in values.items()]
    for row in rows:
        if row.get("error"):
            text = "cannot set the knob %s=%s: %s" % (
                row["name"],
                row["requested"],
                row["error"],
            )
            hint = "fusiondoc knobs lists what this torch has and which values it takes."
            raise Refused("knob", text, hint, CANNOT_RUN)
    return rows


def try_all(torch: Any) -> list[dict[str, Any]]:
    """Try every knob; return the records of ``apply`` with ``requested`` None and
    the current value.

    Runs two small functions through the executor, so it belongs in a process of its
    own. Every knob is restored.
    """
    records = []
    with KeptStderr() as kept:
        for name, knob in KNOBS.items():
            missing = knob.missing(torch)
            if missing:
                outcome = KnobOutcome(None, False, "this torch has no " + missing)
            else:
                try:
                    outcome = knob.attempt(torch)
                except (TypeError, RuntimeError) as error:
                    outcome = KnobOutcome(None, False, _described(error))
            records.append(
                _record(name, None, _with_warnings(outcome, kept.warnings()))
            )
    return records


def _hushed(knob: Any, action: Any) -> tuple[KnobOutcome, list[str]]:
    if not any(function.startswith(_WARNS) for function in knob.needs):
        return action(), []
    with KeptStderr() as kept:
        outcome = action()
        return outcome, kept.warnings()


def _with_warnings(outcome: KnobOutcome, warnings: list[str]) -> KnobOutcome:
    """Add torch's warnings: they explain more, and are the only sign that a
    function without a value is a no-op."""
    if not warnings:
        return outcome
    # The rest of the text has the value set by the trial, not the current value.
    text = warnings[0].split(". Setting to ")[0]
    live = False if "no-op" in text else outcome.live
    return outcome._replace(live=live, why="torch: " + text)


def _record(
    name: str, requested: str | None, outcome: KnobOutcome, error: str | None = None
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "record": "knob",
        "name": name,
        "requested": requested,
        "effective": show(outcome.effective),
        "live": outcome.live,
        "why": outcome.why,
    }
    if error is not None:
        record["error"] = error
    return record


def names() -> Iterable[str]:
    """The names of all knobs, in the order of ``try_all``."""
    return KNOBS.keys()
