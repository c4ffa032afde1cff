"""``fusiondoc``: finds the command, runs it, and turns every known failure into a
message and exit status.

Every call imports it, so it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from fusiondoc.cli.memory_limit import memory_was_full
from fusiondoc.cli.streams import open_streams
from fusiondoc.errors import (
    CANNOT_RUN,
    INTERRUPTED,
    OWN_FAULT,
    FusiondocError,
    did_you_mean,
)
from fusiondoc.version import __version__

COMMANDS = {
    "diagnose": "Run a model and report what fused, what did not and why.",
    "parse": "Make the same report of logs or captures; needs neither torch nor a GPU.",
    "check": "Exit 1 unless the expected fusion groups exist; --update writes the file.",
    "history": "Show how groups, coverage and times of models moved over commits and runs.",
    "kernels": "List generated kernels; print or save their code and other dumps.",
    "compare": "Show what changed between two logs, captures or saved reports.",
    "fix": "Find changes to a program that fuse more, try each, and print a diff or apply it.",
    "bench": "Time a model in every variant: eager, each fuser, AOTAutograd, torch.compile.",
    "repro": "Write one fusion group as a stand-alone Python file, and make it smaller.",
    "knobs": "List what can be toggled on this torch, and what each toggle really does.",
    "env": "Show what this machine can run; export the variables for your own launcher.",
    "survey": "Summarise many runs: groups, groups that are gone, reasons, slow kernels.",
    "bundle": "Pack a capture for a bug report, with names and secrets replaced.",
    "captures": "List, show and remove the captures in .fusiondoc/.",
    "explain": "Explain a finding code.",
}
"""Command name -> help line. The module of a command is imported when it runs,
never before."""


def command_of(name: str) -> click.Command:
    """The command of that name in COMMANDS."""
    command = importlib.import_module(f"fusiondoc.cli.{name}").command
    assert isinstance(command, click.Command)
    return command


_MOST_WIDTH = 100
"""Width of help, in columns."""


class LazyGroup(click.Group):
    """Imports a command's module only when that command is used, so that ``--help``
    starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(
        self, ctx: click.Context, cmd_name: str
    ) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return command_of(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(
                f"no such command '{args[0]}'. {did_you_mean(args[0], COMMANDS)}",
                ctx,
            )
        name, command, rest = super().resolve_command(ctx, args)
        own = rest[: rest.index("--")] if "--" in rest else rest
        if (
            command is not None
            and not ctx.resilient_parsing
            and not {"-h", "--help", "--help-all"} & set(own)
        ):
            _configure(ctx)
        return name, command, rest

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _configure(ctx: click.Context) -> None:
    """Read the defaults from the configuration file, if there is one; only then is
    anything imported for it."""
    from fusiondoc import captures

    ctx.call_on_close(captures.forget)
    ctx.call_on_close(_remove_unpacked)

    found = _configuration()
    if found is not None:
        from fusiondoc.cli.config import apply

        apply(ctx, *found, COMMANDS)


def _remove_unpacked() -> None:
    """Remove unpacked archives, which are in a temporary folder that a signal would
    leave behind."""
    archives = sys.modules.get("fusiondoc.workflows.archives")
    if archives is not None:
        archives.remove_unpacked()


@click.command(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": _MOST_WIDTH,
    },
)
@click.version_option(__version__, prog_name="fusiondoc")
def cli() -> None:
    """Show which operators of a PyTorch model became one kernel, which did not and why, and what to change.

    It reads what the fusers of TorchScript and torch.compile write.

    \b
    Examples:
      fusiondoc diagnose model.py            run a model and report
      fusiondoc parse train.log              report from a saved log
      fusiondoc explain FD201                what a finding means
    """


class _Signalled(BaseException):
    """A signal that ends this process, once half-written files have been
    removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Context manager: SIGTERM and SIGHUP raise instead of ending the process at
    once; while a child runs, ``runner/child.py`` counts them."""

    before: dict[int, Any] = {}

    def stop(number: int, frame: object) -> NoReturn:
        for other in before:  # remove half-written files once only
            signal.signal(other, signal.SIG_IGN)
        raise _Signalled(number)

    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        # ValueError: not in the main thread. One that is ignored (nohup) stays so.
        with contextlib.suppress(ValueError):
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _help_width() -> int:
    """Columns of help, calculated as click does; but click imports shutil for it,
    with all its archive modules."""
    columns = os.environ.get("COLUMNS", "")
    try:
        if columns.isdigit():
            width = int(columns)
        else:
            width = os.get_terminal_size(1).columns
    except (ValueError, OSError):  # stdout is closed, or no terminal
        width = 80
    return max(min(width or 80, _MOST_WIDTH) - 2, 50)


_COLLECT_AFTER = (200_000, 20, 100)
"""Thresholds of the garbage collector. The report of a long log has millions of
objects and few cycles: with those of Python (700, 10, 10) a sixth of the time of
``parse`` goes into looking for them."""


def _print_wrong_usage(error: click.ClickException, words: Sequence[str]) -> None:
    """Print click's own message in the form of all others: with a small first
    letter and the next step. click does not name the command of an option that
    lacks its argument; ``words`` of the command line do."""
    message = error.format_message().rstrip(".")
    _print_error(f"error: {message[:1].lower()}{message[1:]}")
    command = words[0] if words and words[0] in COMMANDS else ""
    if command == "diagnose" and isinstance(error, click.NoSuchOption):
        own = "; options of a script follow --: fusiondoc diagnose --script FILE.py -- OPTIONS"
    else:
        own = ""
    print(
        f"next: {' '.join(['fusiondoc', *filter(None, [command])])} --help{own}",
        file=sys.stderr,
    )


def _print_with_hint(error: FusiondocError) -> None:
    _print_error(f"error: {error.message}")
    if error.hint:
        _print_error(f"next: {error.hint}")


def _print_system_error(error: OSError) -> None:
    _print_error(f"error: {error}")
    if error.errno == errno.ENOSPC:
        print(
            "next: Free some space, or choose another file with --output.",
            file=sys.stderr,
        )
    else:
        print("next: Check the path and its permissions.", file=sys.stderr)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with the status of the contract."""
    debug = bool(os.environ.get("FUSIONDOC_DEBUG"))
    gc.set_threshold(*_COLLECT_AFTER)
    open_streams()
    try:
        with _signals_raise():
            status = cli.main(
                args=argv,
                prog_name="fusiondoc",
                standalone_mode=False,
                terminal_width=_help_width(),
            )
    except _Signalled as ending:
        signal.signal(ending.number, signal.SIG_DFL)
        os.kill(os.getpid(), ending.number)
        raise
    except FusiondocError as error:
        if debug:
            raise
        _print_with_hint(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _print_wrong_usage(error, sys.argv[1:] if argv is None else argv)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        interrupted()
    except MemoryError:
        memory_is_full()
    except BrokenPipeError:
        # The reader (head, less) went away: not an error. Keep the interpreter from
        # flushing into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if _lacks_memory(error):
            memory_is_full()
        if debug:
            raise
        if isinstance(error, OSError):
            _print_system_error(error)
            sys.exit(2)
        _own_fault(error)
        sys.exit(OWN_FAULT)
    sys.exit(status if isinstance(status, int) else 0)


def _lacks_memory(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, SystemError) and memory_was_full()


def interrupted() -> NoReturn:
    """End after Ctrl-C (status 130). A second Ctrl-C would only show where Python
    was."""
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            break
        except KeyboardInterrupt:
            continue
        except ValueError:  # not in the main thread
            break
    print("interrupted", file=sys.stderr)
    sys.exit(INTERRUPTED)


def memory_is_full() -> NoReturn:
    """End with status 4: this machine, or this process's limit, has no memory
    left."""
    print(
        "error: there is not enough memory for this.\n"
        "next: Raise the limit of this process (ulimit -v, or that of the container), use a machine with more"
        " memory, or read a part of the log: head -c 500000000 LOG | fusiondoc parse -",
        file=sys.stderr,
    )
    sys.exit(CANNOT_RUN)


def _print_error(text: str) -> None:
    """Print a message that may quote a log or a path, without control sequences for
    the terminal or commands for GitHub."""
    from fusiondoc.masking import masked
    from fusiondoc.rendering.printable import in_github_log, visible

    print(in_github_log(visible(masked(text))), file=sys.stderr)


def _own_fault(error: Exception) -> None:
    """Print the facts that a bug report needs, and keep the traceback in a file."""
    import tempfile
    import traceback

    text = "".join(
        traceback.format_exception(type(error), error, error.__traceback__)
    )
    print(
        f"error: fusiondoc failed: {type(error).__name__}: {str(error)[:200]!r}",
        file=sys.stderr,
    )
    where = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="backslashreplace",
            prefix="fusiondoc-",
            suffix=".txt",
            delete=False,
        ) as file:
            file.write(
                f"fusiondoc {__version__}, Python {sys.version}, {sys.platform}\n\n{text}"
            )
        where = f" Its details are in {file.name}."
    except OSError:
        where = "\n" + text
    print(
        f"next: This is a fault of fusiondoc's own; please report it.{where} FUSIONDOC_DEBUG=1 shows it"
        " at once.",
        file=sys.stderr,
    )


OWN = "fusiondoc.yaml"
SHARED = "pyproject.toml"


def _configuration() -> tuple[str, str] | None:
    """Path and kind ("yaml" or "toml") of the nearest configuration, from the
    current folder upward.

    ``fusiondoc.yaml`` comes before a ``pyproject.toml`` in the same folder, which
    counts only if it holds ``[tool.fusiondoc]``. The search ends at the folder that
    holds ``.git``.
    """
    try:
        here = Path.cwd()
    except OSError:  # the current folder is gone
        return None
    for folder in (here, *here.parents):
        own, shared = folder / OWN, folder / SHARED
        if own.is_file():
            return str(own), "yaml"
        if shared.is_file() and _mentions(shared):
            return str(shared), "toml"
        if (folder / ".git").exists():
            return None
    return None


def _mentions(path: Path) -> bool:
    """True if the file may contain our TOML table; most files have none, and
    parsing takes time."""
    from fusiondoc.whole_files import read_within

    try:
        text = read_within(path)
    except OSError:
        return False
    return b"tool" in text and b"fusiondoc" in text
