"""Functions that were wrapped by AOTAutograd before the watch began: seen where their compilation does.

What ``aot_function`` has returned keeps the compilers that it was given, but calls its module's functions by
their names: ``create_aot_autograd_function`` (functorch 0.2), ``create_aot_dispatcher_function`` with the
compilers in an ``AOTConfig`` (torch 1.13 to 2.6), ``aot_stage1_graph_capture``, which traces, and
``aot_stage2_compile``, which parts and compiles (2.13).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from typing import Any

from .aot_sites import Site
from .aot_watch import Watch

HOW = "AOTAutograd, defined"
"""Of a place that is not known: the line is that of the function."""


class LateWatch(Watch):
    """A watch that begins in a program that has run for a while."""

    def _replace(self, home: Any) -> None:
        known = getattr(home, "_fusiondoc_watched", False)
        super()._replace(home)
        for name, replacement in () if known else _STAGES:
            original = getattr(home, name, None)
            if original is not None:
                self.replaced.put(home, name, functools.wraps(original)(replacement(self, original)))


def _by_arguments(watch: Watch, original: Any) -> Any:
    """The compilers are arguments."""
    signature = inspect.signature(original)

    def compile_(*args: Any, **kwargs: Any) -> Any:
        site = None
        with contextlib.suppress(Exception):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            state = given.get("aot_state")
            site = _site_of(watch, given["flat_fn"]) if state is None else _SITES.pop(id(state), None)
            if site is not None:
                given["bw_compiler"] = given["bw_compiler"] or given["fw_compiler"]
                for name, phase in _COMPILERS:
                    if given.get(name) is not None:
                        given[name] = watch.compiler(given[name], phase, site)
                given["partition_fn"] = watch.partition(given["partition_fn"], site)
        if site is None:
            return original(*args, **kwargs)
        with watch.tracing(site):
            made = original(*bound.args, **bound.kwargs)
        return _traced_in(watch, site, made)

    return compile_


def _by_config(watch: Watch, original: Any) -> Any:
    """The compilers are in the third argument."""

    def compile_(flat_fn: Any, flat_args: Any, aot_config: Any, *rest: Any, **more: Any) -> Any:
        site = None
        with contextlib.suppress(Exception):
            site = _site_of(watch, flat_fn)
            if site is not None:
                site.note_shapes(watch.torch, flat_args)
                config = copy.copy(aot_config)
                for name, phase in _COMPILERS:
                    if getattr(config, name, None) is not None:
                        setattr(config, name, watch.compiler(getattr(config, name), phase, site))
                config.partition_fn = watch.partition(config.partition_fn, site)
        if site is None:
            return original(flat_fn, flat_args, aot_config, *rest, **more)
        with watch.tracing(site):
            return original(flat_fn, flat_args, config, *rest, **more)

    return compile_


def _first_stage(watch: Watch, original: Any) -> Any:
    """It traces; the stage that compiles gets the same state."""

    def capture(aot_state: Any, flat_fn: Any, *rest: Any, **more: Any) -> Any:
        site = None
        with contextlib.suppress(Exception):
            site = _site_of(watch, flat_fn)
            if site is not None:
                site.note_shapes(watch.torch, aot_state.flat_args)
        if site is None:
            return original(aot_state, flat_fn, *rest, **more)
        with watch.tracing(site):
            made = original(aot_state, flat_fn, *rest, **more)
        _SITES[id(aot_state)] = site
        return made

    return capture


_STAGES = (
    ("create_aot_autograd_function", _by_arguments),
    ("create_aot_dispatcher_function", _by_config),
    ("aot_stage1_graph_capture", _first_stage),
    ("aot_stage2_compile", _by_arguments),
)
_COMPILERS = (("fw_compiler", "forward"), ("bw_compiler", "backward"), ("inference_compiler", "forward"))
_SITES: dict[int, Site] = {}
"""Between the two stages, by the state's id."""


def _traced_in(watch: Watch, site: Site, made: Any) -> Any:
    """Functorch 0.2 gives an autograd function that traces in its first call, under the name ``apply``."""
    apply: Any = getattr(made, "apply", None)
    if apply is None:
        return made

    class Made:
        """What the caller takes ``apply`` of."""

        @staticmethod
        def apply(*args: Any) -> Any:
            with contextlib.suppress(Exception):
                site.note_shapes(watch.torch, args)
            with watch.tracing(site):
                return apply(*args)

    return Made


def _site_of(watch: Watch, flat_fn: Any) -> Site | None:
    """The place of a function that is compiled; None where the watch knows it already."""
    if not watch.is_on or watch.active is not None:
        return None
    function = _inside(flat_fn, "fn")
    module = _inside(function, "mod")
    if module is not None:
        name, code = type(module).__name__, getattr(type(module).forward, "__code__", None)
    else:
        plain: Any = inspect.unwrap(function) if callable(function) else None
        name = str(getattr(plain, "__qualname__", None) or "a function")
        code = getattr(plain, "__code__", None)
    at = "%s:%d" % (code.co_filename, code.co_firstlineno) if code is not None else None
    site = watch.site((id(function), "late"), name, HOW, at)
    site.wraps = 1
    return site


def _inside(function: Any, name: str) -> Any:
    """What a function has kept under a name of the function around it."""
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return function.__closure__[code.co_freevars.index(name)].cell_contents
