"""Records the fusers' messages of this process while it runs: descriptors 1 and 2
go to a file, and torch's JIT log is switched on. Everything is restored afterwards,
however the block was left.

The program's own prints stay visible: text that Python's streams write is shown at
once where it would have been shown, and is a part of the log too (a fallback is a
Python warning). Text that compiled code and child processes write to the
descriptors themselves is in the log only; the fusers' messages are of that kind.

Functions that AOTAutograd wrapped before the watch began are seen when they are
compiled: they keep their compilers, but call functions of their module by name,
which can be replaced. ``create_aot_autograd_function`` is that of functorch 0.2,
``create_aot_dispatcher_function`` with the compilers in an ``AOTConfig`` that of
torch 1.13 to 2.6; in 2.13 ``aot_stage1_graph_capture`` traces, and
``aot_stage2_compile`` partitions and compiles."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import importlib
import inspect
import os
import sys
import threading
from typing import Any, Callable, Iterator, Mapping

from . import log_and_records
from .aot_records import Site
from .aot_watch import Watch

JIT_LOG = "PYTORCH_JIT_LOG_LEVEL"

_IOFBF, _IOLBF = 0, 1
"""``log_and_records.h`` of glibc, musl and macOS."""


def import_torch() -> Any:
    """The torch of this process; ImportError without one."""
    return importlib.import_module("torch")


class LogSwitches:
    """Switches of torch's log: the JIT log level, and environment variables that
    torch reads late.

    ``torch._C._jit_set_logging_option`` (torch/csrc/jit/python/init.cpp) sets the
    level at any time (tried on torch 1.12.1 and 2.13.0). A torch without it reads
    the variable once, at the first JIT pass that could log.
    """

    def __init__(self, torch: Any) -> None:
        self._set = getattr(torch._C, "_jit_set_logging_option", None)
        self._get = getattr(torch._C, "_jit_get_logging_option", None)

    @property
    def at_run_time(self) -> bool:
        """Whether the level can be changed at any time."""
        return self._set is not None and self._get is not None

    def level(self) -> str:
        """The level in effect, as PYTORCH_JIT_LOG_LEVEL writes it; "" for none."""
        if self._get is not None:
            return str(self._get())
        return os.environ.get(JIT_LOG, "")

    @contextlib.contextmanager
    def on(self, level: str, variables: Mapping[str, str]) -> Iterator[None]:
        """Context manager: set the level, and the variables."""
        wanted = dict(variables)
        with contextlib.ExitStack() as undo:
            if self._set is not None and self._get is not None:
                undo.callback(self._set, self.level())
                self._set(level)
            else:
                wanted[JIT_LOG] = level
            for name, value in wanted.items():
                undo.callback(_put_variable, name, os.environ.get(name))
                os.environ[name] = value
            yield


def _put_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextlib.contextmanager
def redirected(
    path: str, problem: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    """Context manager: redirect descriptors 1 and 2 to the file at ``path``, which
    is created or appended to, so that output stays in order. ``problem`` is called
    with a sentence for each stream that cannot be recorded. The yielded function,
    called with another path, moves both to that file, except a descriptor that the
    program itself has redirected.

    Raises:
        OSError: the file cannot be written.
    """
    with contextlib.ExitStack() as undo:
        log = log_and_records.above_standard(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        )
        undo.callback(os.close, log)
        shown = {}
        for number in (1, 2):
            shown[number] = log_and_records.copy_of(number)
            if shown[number] >= 0:
                undo.callback(os.close, shown[number])
        log_and_records.flush()
        for number in (1, 2):
            undo.callback(_put_descriptor, shown[number], number)
            os.dup2(log, number)
        undo.callback(log_and_records.flush)
        undo.callback(_buffer_c_stdout, _c_stdout_is_line_buffered(shown[1]))
        _buffer_c_stdout(True)
        tee = _Tee(log)
        seen: set[int] = set()
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is None or id(stream) in seen:
                continue
            seen.add(id(stream))
            try:
                _record_stream(stream, tee, shown, seen, undo)
            except (AttributeError, TypeError, ValueError, OSError) as error:
                problem(
                    "what Python writes to %r is not in the log: %s"
                    % (type(stream).__name__, error)
                )

        def move(other: str) -> None:
            now = log_and_records.identity(log)
            new = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                for number in (1, 2):
                    if log_and_records.identity(number) == now:
                        os.dup2(new, number)
                os.dup2(new, log, False)
            finally:
                os.close(new)

        yield move


def _put_descriptor(copy: int, number: int) -> None:
    if copy >= 0:
        os.dup2(copy, number)
    else:
        os.close(number)


def _c_stdout() -> tuple[Any, Any]:
    """Return (the C library, its ``stdout``); OSError, AttributeError or ValueError
    if they are not available."""
    libc = ctypes.CDLL(None)
    return libc, ctypes.c_void_p.in_dll(
        libc, "__stdoutp" if sys.platform == "darwin" else "stdout"
    )


def _c_stdout_is_line_buffered(copy: int) -> bool:
    """True if C's stdout is line-buffered, by ``__flbf`` of glibc and musl;
    elsewhere if it is a terminal."""
    with contextlib.suppress(OSError, AttributeError, ValueError, TypeError):
        libc, stdout = _c_stdout()
        return bool(libc.__getattr__("__flbf")(stdout))
    return copy >= 0 and os.isatty(copy)


def _buffer_c_stdout(lines: bool) -> None:
    """Buffer C's stdout by lines (so that they are in order with other output) or
    by blocks."""
    with contextlib.suppress(OSError, AttributeError, ValueError, TypeError):
        libc, stdout = _c_stdout()
        libc.fflush(stdout)
        libc.setvbuf(stdout, None, _IOLBF if lines else _IOFBF, 0)


class _Tee:
    """Copies the text of streams to the log. A stream that writes to another stream
    is recorded once."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._inside = threading.local()

    def write(self, data: bytes, show: Callable[[], Any]) -> Any:
        """Add ``data`` to the log, then ``show`` it; a full disk does not stop the
        program."""
        if getattr(self._inside, "yes", False):
            return show()
        with contextlib.suppress(OSError):
            _write_all(self._log, data)
        self._inside.yes = True
        try:
            return show()
        finally:
            self._inside.yes = False


def _write_all(descriptor: int, data: Any) -> int:
    view = memoryview(data).cast("B")
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done:])
    return done


def _record_stream(
    stream: Any,
    tee: _Tee,
    shown: Mapping[int, int],
    seen: set[int],
    undo: contextlib.ExitStack,
) -> None:
    """Replace ``write`` of the stream object itself, so that all its users (a
    logging handler) are recorded: that of the binary layer if it ends in descriptor
    1 or 2, else (Jupyter, pytest) that of the text layer."""
    number = _number(stream)
    binary = getattr(stream, "buffer", None)
    if number not in shown or binary is None:
        plain = stream.write

        def write_text(text: str) -> Any:
            return tee.write(
                str(text).encode("utf-8", "backslashreplace"), lambda: plain(text)
            )

        _replace_write(stream, write_text, undo)
        return
    if id(binary) not in seen:
        seen.add(id(binary))

        def write_bytes(data: Any) -> Any:
            return tee.write(data, lambda: _write_all(shown[number], data))

        _replace_write(binary, write_bytes, undo)
    undo.callback(stream.reconfigure, write_through=stream.write_through)
    # Nothing waits in the text layer while compiled code writes.
    stream.reconfigure(write_through=True)


def _number(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError, TypeError):
        return -1


def _replace_write(
    owner: Any, write: Callable[[Any], Any], undo: contextlib.ExitStack
) -> None:
    before = vars(owner).get("write")
    owner.write = write

    def put_back() -> None:
        if before is None:
            del owner.write
        else:
            owner.write = before

    undo.callback(put_back)


HOW = "AOTAutograd, defined"
"""How a function was wrapped, where the call site is not known: the line is that of
the function."""


class LateWatch(Watch):
    """A watch that begins in a program that has run for a while."""

    def _replace(self, home: Any) -> None:
        known = getattr(home, "_fusiondoc_watched", False)
        super()._replace(home)
        for name, replacement in () if known else _STAGES:
            original = getattr(home, name, None)
            if original is not None:
                self.replaced.put(
                    home,
                    name,
                    functools.wraps(original)(replacement(self, original)),
                )


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
            if state is None:
                site = _site_of(watch, given["flat_fn"])
            else:
                site = _SITES.pop(id(state), None)
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

    def compile_(
        flat_fn: Any, flat_args: Any, aot_config: Any, *rest: Any, **more: Any
    ) -> Any:
        site = None
        with contextlib.suppress(Exception):
            site = _site_of(watch, flat_fn)
            if site is not None:
                site.note_shapes(watch.torch, flat_args)
                config = copy.copy(aot_config)
                for name, phase in _COMPILERS:
                    if getattr(config, name, None) is not None:
                        setattr(
                            config,
                            name,
                            watch.compiler(getattr(config, name), phase, site),
                        )
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
_COMPILERS = (
    ("fw_compiler", "forward"),
    ("bw_compiler", "backward"),
    ("inference_compiler", "forward"),
)
_SITES: dict[int, Site] = {}
"""Between the two stages, by the state's id."""


def _traced_in(watch: Watch, site: Site, made: Any) -> Any:
    """Functorch 0.2 gives an autograd function that traces in its first call, under
    the name ``apply``."""
    apply: Any = getattr(made, "apply", None)
    if apply is None:
        return made

    class Made:
        """Stands for the autograd class: the caller uses its ``apply`` only."""

        @staticmethod
        def apply(*args: Any) -> Any:
            with contextlib.suppress(Exception):
                site.note_shapes(watch.torch, args)
            with watch.tracing(site):
                return apply(*args)

    return Made


def _site_of(watch: Watch, flat_fn: Any) -> Site | None:
    """The call site of a function that is compiled; None where the watch knows it
    already."""
    if not watch.is_on or watch.active is not None:
        return None
    function = _inside(flat_fn, "fn")
    module = _inside(function, "mod")
    if module is not None:
        name, code = (
            type(module).__name__,
            getattr(type(module).forward, "__code__", None),
        )
    else:
        plain: Any = inspect.unwrap(function) if callable(function) else None
        name = str(getattr(plain, "__qualname__", None) or "a function")
        code = getattr(plain, "__code__", None)
    at = None
    if code is not None:
        at = "%s:%d" % (code.co_filename, code.co_firstlineno)
    site = watch.site((id(function), "late"), name, HOW, at)
    site.wraps = 1
    return site


def _inside(function: Any, name: str) -> Any:
    """The value of a variable in a function's closure; None if it has none of that
    name."""
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return function.__closure__[code.co_freevars.index(name)].cell_contents
