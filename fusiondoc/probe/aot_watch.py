"""Watches AOTAutograd in the user's process: which functions are wrapped where,
traced, partitioned, compiled.

The three functions that every way to AOTAutograd goes through are replaced where
they are defined, as soon as their module is imported: ``aot_function`` (of
``memory_efficient_fusion`` too), ``aot_module`` and ``aot_module_simplified`` (of
``torch.compile``). They are in functorch/_src/aot_autograd.py of functorch 0.2
(torch 1.12) and torch 1.13, in torch/_functorch/aot_autograd.py from 2.0 on. Their
arguments are passed on, with recording compilers and a recording partition function
around the user's.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import Any, Callable, Iterator

from .aot_records import (
    WRAPPED,
    Site,
    Sources,
    changed_since,
    default_saved,
    graph_breaks,
    graph_record,
    lines_of,
    marking,
    name_of,
    sharing,
    versions,
)
from .log_and_records import Records
from .replaced import AfterImport, Replaced, takes_frames_up

HOMES = ("torch._functorch.aot_autograd", "functorch._src.aot_autograd")
ENTRIES = (
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "memory_efficient_fusion",
    "ts_compile",
)
"""Names in programs that use AOTAutograd directly."""

_REBOUND = ("torch._functorch", "functorch", "torch._dynamo.backends")
"""Modules that may have imported these functions under names of their own."""

_MOST_GRAPHS = 8
"""Most compilations of one call site whose graphs are recorded."""
_MOST_SCRIPTED = 64


class Watch:
    """One for each process; ``start`` before the user's code is imported."""

    def __init__(self, torch: Any, records: Records, quiet: bool = False) -> None:
        """``quiet``: only mark the functions that are wrapped, for a run that is
        timed."""
        self.torch = torch
        self._records = records
        self._quiet = quiet
        self._sources: Sources | None = None
        self._sites: dict[Any, Site] = {}
        self._active: list[Site] = []
        self._compiling: list[tuple[Site, int, str]] = []
        self._module: str | None = None
        self._scripted = 0
        self._kept: dict[Any, Any] = {}
        self.replaced = Replaced()
        self.is_on = True
        self._before: tuple[int, dict[str, int]] = (0, {})
        self.after_import: dict[str, Callable[[Any], object]] = {}
        """Name of a module -> function that is called with the module after its
        import."""
        self._finder = AfterImport(self.after_import)

    @property
    def wraps(self) -> int:
        """Number of functions wrapped so far."""
        return sum(site.wraps for site in self._sites.values())

    @property
    def calls(self) -> int:
        """Number of calls of wrapped functions so far."""
        return sum(site.calls or 0 for site in self._sites.values())

    def start(self) -> None:
        """Replace the functions, now or when their modules are imported."""
        self._before = graph_breaks()
        for name in HOMES:
            self.after_import[name] = self._replace
        for name in list(self.after_import):
            module = sys.modules.get(name)
            if module is not None:
                self.after_import[name](module)
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Undo the replacements; functions wrapped in the meantime are no longer
        watched."""
        self.is_on = False
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._finder)
        self.replaced.take_back()

    def forget(self) -> None:
        """In a fork: drop the state of the parent process, which records it itself.
        A call site that is used here is recorded again for this process."""
        self._before = graph_breaks()
        self._active.clear()
        self._compiling.clear()
        for site in self._sites.values():
            site.forget()

    def finish(self) -> None:
        """Write the records of totals: uses of each call site, graph breaks."""
        if self._quiet:
            return
        for site in self._sites.values():
            if not site.is_written:
                if not site.is_used:
                    continue
                self._write_site(site)
            self._records.write("aot_used", **site.used())
        graphs, reasons = graph_breaks()
        graphs -= self._before[0]
        reasons = {
            why: n - self._before[1].get(why, 0) for why, n in reasons.items()
        }
        reasons = {why: n for why, n in reasons.items() if n > 0}
        if graphs > 0 or reasons:
            self._records.write("aot_breaks", graphs=graphs, reasons=reasons)

    # Replacing.

    def _replace(self, home: Any) -> None:
        if not self.is_on or getattr(home, "_fusiondoc_watched", False):
            return
        self.replaced.put(home, "_fusiondoc_watched", True)
        if self._quiet:
            self._put(
                home, "aot_function", home.aot_function, marking(home.aot_function)
            )
            return
        if self._sources is None:
            self._sources = Sources(self.torch, self.replaced.put)
            self._replace_script()
        self._sources.add_library(home)
        for name in ("aot_function", "aot_module", "aot_module_simplified"):
            original = getattr(home, name, None)
            if original is not None:
                self._put(home, name, original, getattr(self, "_" + name)(original))
        joint = getattr(home, "create_joint_forward_backward", None)
        if joint is not None and not hasattr(
            home, "setup_stacktrace_preservation_hooks"
        ):
            sources = self._sources
            self._put(
                home,
                "create_joint_forward_backward",
                joint,
                lambda fn: joint(
                    sources.through_gradients(fn) if self.is_on else fn
                ),
            )

    def _put(self, home: Any, name: str, original: Any, made: Any) -> None:
        self.replaced.put(home, name, made)
        for module_name, module in list(sys.modules.items()):
            if (
                module_name.startswith(_REBOUND)
                and vars(module).get(name) is original
            ):
                self.replaced.put(module, name, made)

    def _replace_script(self) -> None:
        """Replace the scripting of graphs: ``ts_compile`` scripts its graph in
        every version; other backends script or trace theirs."""
        for name in ("script", "trace"):
            self.replaced.put(
                self.torch.jit, name, self._scripting(getattr(self.torch.jit, name))
            )

    def _scripting(self, original: Any) -> Any:
        frames_up = takes_frames_up(original)

        @functools.wraps(original)
        def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
            if frames_up:
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            made = original(
                obj, *args, **kwargs
            )  # before it a graph of torch.compile may have no code
            if self.is_on and isinstance(obj, self.torch.fx.GraphModule):
                with contextlib.suppress(Exception):
                    self._note_script(obj)
            return made

        return script

    def _aot_module(self, original: Any) -> Any:
        @functools.wraps(original)
        def aot_module(mod: Any, *args: Any, **kwargs: Any) -> Any:
            before, self._module = self._module, type(mod).__name__
            try:
                return original(mod, *args, **kwargs)
            finally:
                self._module = before

        return aot_module

    def _aot_function(self, original: Any) -> Any:
        signature = inspect.signature(original)
        # functorch 0.2 has one cache of compilations for the process, whose key is
        # the identity of the function and the compilers. Torch 1.13 and 2.0 keep
        # the argument, unused; there the backward graph is compiled when the
        # wrapped function has returned, so its compilers know the call site
        # themselves.
        hasher = signature.parameters.get("hasher_type")
        shared = hasher is not None and hasher.default is not None

        @functools.wraps(original)
        def aot_function(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on:
                return original(*args, **kwargs)
            try:
                bound = signature.bind(*args, **kwargs)
                site = self._site_of(bound.arguments["fn"])
                self._record_arguments(bound, None if shared else site)
            except Exception:
                return original(*args, **kwargs)
            return self._counted(site, original(*bound.args, **bound.kwargs))

        return aot_function

    def _aot_module_simplified(self, original: Any) -> Any:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def aot_module_simplified(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on:
                return original(*args, **kwargs)
            try:
                bound = signature.bind(*args, **kwargs)
                site = self._site_of_graph(bound.arguments["mod"])
                site.note_shapes(self.torch, bound.arguments.get("args", ()))
                self._record_arguments(bound, site)
            except Exception:
                return original(*args, **kwargs)
            with self.tracing(site):
                return original(*bound.args, **bound.kwargs)

        return aot_module_simplified

    def _record_arguments(self, bound: Any, site: Site | None) -> None:
        """Replace the compilers and the partition function by recording ones. With
        ``site`` None there is one recorder for each function, shared by all call
        sites that use it."""
        bound.apply_defaults()
        given = bound.arguments
        forward = given["fw_compiler"]
        given["bw_compiler"] = self.compiler(
            given.get("bw_compiler") or forward, "backward", site
        )
        if "inference_compiler" in given:
            given["inference_compiler"] = self.compiler(
                given["inference_compiler"] or forward, "forward", site
            )
        given["fw_compiler"] = self.compiler(forward, "forward", site)
        given["partition_fn"] = self.partition(given["partition_fn"], site)

    def compiler(self, compiler: Any, phase: str, site: Site | None) -> Any:
        """Return a compiler that records its graph and passes it on."""
        key = (id(compiler), phase)
        if site is None and key in self._kept:
            return self._kept[key]
        original = compiler

        def recording(graph: Any, *args: Any, **kwargs: Any) -> Any:
            at = site or (self._active[-1] if self._active else None)
            if at is None or not self.is_on:
                return original(graph, *args, **kwargs)
            with contextlib.suppress(Exception):
                if phase == "forward":
                    if (
                        not at.forward_waits
                    ):  # nothing was partitioned: no gradient is needed
                        at.begin(False)
                    at.forward_waits = False
                self._note_graph(at, phase, graph)
            self._compiling.append((at, at.compiles, phase))
            try:
                return original(graph, *args, **kwargs)
            except Exception as error:
                self._note_failure(at, "compile the %s graph" % phase, error)
                raise
            finally:
                self._compiling.pop()

        with contextlib.suppress(Exception):
            functools.update_wrapper(recording, original)
        if site is None:
            self._kept[key] = recording
        return recording

    def partition(self, partition: Any, site: Site | None) -> Any:
        """Return a partition function that records its graphs before and after."""
        key = (id(partition), "partition")
        if site is None and key in self._kept:
            return self._kept[key]

        def recording(joint: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            at = site or (self._active[-1] if self._active else None)
            if at is None or not self.is_on:
                return partition(joint, inputs, *args, **kwargs)
            facts: dict[str, Any] = {}
            with contextlib.suppress(Exception):
                at.begin(True)
                self._note_graph(at, "joint", joint)
                # From 2.0 on it is an argument; before, the joint graph has it in
                # its output's structure.
                number = kwargs.get("num_fwd_outputs")
                if number is None:
                    number = joint._out_spec.children_specs[0].num_leaves
                facts = {"name": name_of(partition), "forward_outputs": int(number)}
                if at.compiles <= _MOST_GRAPHS:
                    facts["default_saved"] = default_saved(
                        self.torch, joint, inputs, int(number)
                    )
            made = partition(joint, inputs, *args, **kwargs)
            with contextlib.suppress(Exception):
                self._note_graph(at, "forward", made[0])
                self._note_graph(at, "backward", made[1])
                if facts and at.compiles <= _MOST_GRAPHS:
                    self._records.write(
                        "aot_partition", site=at.number, number=at.compiles, **facts
                    )
            return made

        with contextlib.suppress(Exception):
            functools.update_wrapper(recording, partition)
        if site is None:
            self._kept[key] = recording
        return recording

    # Noting.

    def _site_of(self, function: Any) -> Site:
        assert self._sources is not None
        at, how = self._sources.caller()
        name = self._module or name_of(function)
        return self.site((at, name), name, how or "aot_function", at)

    def _site_of_graph(self, graph: Any) -> Site:
        """The call site of a graph of torch.compile, identified by the line of its
        first operator."""
        assert self._sources is not None
        lines = (
            self._sources.of_node(node)
            for node in graph.graph.nodes
            if node.op.startswith("call")
        )
        at = next((line for line in lines if line), None)
        return self.site(
            (at, "torch.compile"), "a graph of torch.compile", "torch.compile", at
        )

    def site(self, key: Any, name: str, how: str, at: str | None) -> Site:
        """Return the call site of a key, and count one more wrapped function
        there."""
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(len(self._sites), name, how, at)
            self._write_site(site)
        site.wraps += 1
        return site

    def _write_site(self, site: Site) -> None:
        site.is_written = True
        self._records.write(
            "aot_site", site=site.number, name=site.name, how=site.how, at=site.at
        )

    @property
    def active(self) -> Site | None:
        """The call site whose function is being traced or called."""
        if self._active:
            return self._active[-1]
        return None

    @contextlib.contextmanager
    def tracing(self, site: Site) -> Iterator[None]:
        """Context manager: attribute graphs that are traced and compiled here to
        this call site."""
        assert self._sources is not None
        self._active.append(site)
        before = site.compiles
        try:
            with self._sources.tracing():
                yield
        except Exception as error:
            # An error in a call of code that was compiled earlier belongs to the
            # program.
            if not self._compiling and (not before or site.compiles > before):
                self._note_failure(site, "trace it", error)
            raise
        finally:
            self._active.pop()

    def _counted(self, site: Site, made: Any) -> Any:
        """Wrap the wrapped function so that its calls are counted."""
        vars(made)[WRAPPED] = site.how

        @functools.wraps(made)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on:
                return made(*args, **kwargs)
            site.calls = (site.calls or 0) + 1
            new = False
            with contextlib.suppress(Exception):
                new = site.note_shapes(self.torch, (*args, *kwargs.values()))
            before = versions(self.torch, args) if new else []
            with self.tracing(site):
                result = made(*args, **kwargs)
            if new:
                with contextlib.suppress(Exception):
                    site.note_memory(
                        changed_since(self.torch, args, before),
                        sharing(self.torch, args, result),
                    )
            return result

        vars(called)[WRAPPED] = site.how
        return called

    def _note_graph(self, site: Site, phase: str, module: Any) -> None:
        if phase in site.written or site.compiles > _MOST_GRAPHS:
            return
        site.written.add(phase)
        assert self._sources is not None
        facts = graph_record(self.torch, module.graph, self._sources)
        self._records.write(
            "aot_graph",
            site=site.number,
            number=site.compiles,
            phase=phase,
            **facts,
        )

    def _note_script(self, module: Any) -> None:
        file, lines = lines_of(module)
        if not self._compiling:
            self._scripted += 1
            if (
                file is not None
                and self._sources is not None
                and self._scripted <= _MOST_SCRIPTED
            ):
                self._records.write(
                    "graph_lines",
                    file=file,
                    at=self._sources.of_lines(module, lines),
                )
            return
        site, number, phase = self._compiling[-1]
        site.scripted += 1
        if file is not None and site.scripted <= _MOST_SCRIPTED:
            self._records.write(
                "aot_scripted",
                site=site.number,
                number=number,
                phase=phase,
                file=file,
                lines=lines,
            )

    def _note_failure(self, site: Site, stage: str, error: Exception) -> None:
        site.failures += 1
        if site.failures == 1:
            text = str(error).strip().split("\n")[0][:500]
            kind = type(error).__name__
            self._records.write(
                "aot_failed", site=site.number, stage=stage, type=kind, message=text
            )
