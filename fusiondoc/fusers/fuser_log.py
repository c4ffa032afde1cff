"""Messages of a fuser, and how it is recognised in a log and in a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from re import Pattern

from fusiondoc.fusers.dump_kind import DumpKind


@dataclass(frozen=True)
class Refusals:
    """Lines of the JIT log in which a fusion pass states why it does not take a
    node."""

    file: str
    """The file of torch that prints them, without folder and ending:
    ``partition``."""
    mark: bytes
    """The start of each of these lines."""
    form: Pattern[bytes]
    """Group 1 is the text of the cause, group 2 the node as it is printed."""
    causes: Mapping[bytes, tuple[str, str]]
    """Text of a cause -> the code of the finding and the condition, a key of
    ``FuserWords.conditions``."""
    other: str
    """The code for an unknown cause."""


@dataclass(frozen=True)
class Fallbacks:
    """The warning of torch that a fusion group falls back to unfused operators."""

    form: Pattern[bytes]
    """Group 1 is the function that failed, if the version names it."""
    stages: Mapping[bytes, str]
    """That function -> "compile" or "run"."""


@dataclass(frozen=True)
class FuserLog:
    """Headers, nodes and marks of a fuser in a log."""

    pass_file: str | None = None
    """The file of torch in which its pass prints messages, without folder and
    extension: ``graph_fuser``."""
    pass_start: str | None = None
    """Header of the graph that its pass prints first, whether or not it makes
    groups."""
    plan_header: str | None = None
    """Header of the graph that its pass leaves."""
    follows: str | None = None
    """The fuser whose pass runs before its own; if both are on, its pass continues
    with that fuser's plan."""
    groups_header: str | None = None
    """Header of the graph with its groups, before its pass undoes those that are
    too small."""
    compile_header: str | None = None
    """Header of the graph that it compiles to a kernel."""
    cache_header: str | None = None
    """Header of the graph that it makes a cache of kernels for."""
    fallback_header: str | None = None
    """Header of the graph that it fails to compile."""
    line_messages: Pattern[bytes] | None = None
    """Several one-line messages that its pass prints for a node; they are read
    together."""
    indented: tuple[bytes, ...] = ()
    """The starts of its messages that could be lines of a graph."""
    source_lines: Mapping[str, Mapping[str, tuple[int, ...]]] = field(
        default_factory=dict
    )
    """Release of torch -> file -> numbers of its source lines that print messages,
    where these identify the release."""
    inner_graphs: frozenset[str] = frozenset()
    """Other nodes that its passes make, and that print a graph of their own."""
    guards: frozenset[str] = frozenset()
    """Nodes that check types before its groups; they compute nothing of the
    program."""
    refusals: Refusals | None = None
    stdout_marks: tuple[bytes, ...] = ()
    """The starts of the lines that its library prints to stdout."""
    writes_to_stdout: bool = False
    """Whether it also prints to stdout; torch logs to stderr."""
    announces_runs: bool = True
    """Whether a log can show that a kernel runs; otherwise a crash may be from a
    compilation or from a run."""
    fallbacks: Fallbacks | None = None
    """The warning that a group runs as unfused operators."""
    warnings: tuple[bytes, ...] = ()
    """Parts of torch's warnings about it."""
    gone: bytes | None = None
    """The warning of a torch that no longer has it, and whose switches for it have
    no effect."""
    options_set: Pattern[bytes] | None = None
    """A line that shows that the user set a variable of it."""
    signs: tuple[bytes, ...] = ()
    """Parts of its lines; each line that no other mark of a log matches contains
    one."""
    dump_kinds: tuple[DumpKind, ...] = ()
    """Its dumps that carry text, the more particular ones first."""
    kernel_names: tuple[str, ...] = ()
    """Regular expressions for names in the code of its kernels that end in a
    counter."""
    profile_names: tuple[str, ...] = ()
    """Regular expressions for the names of its groups in a profile."""
    kernels_keep_names: bool = False
    """Whether a profile shows its kernels under the report's names."""
    before_kernel_names: str | None = None
    """A pattern of text that may precede these names in a profile."""
    code_of_kernels: tuple[tuple[str, str], ...] = ()
    """The starts of its kernels' names, and the dump that is their code."""
    profile_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with which a profile shows its kernels on the CPU."""
