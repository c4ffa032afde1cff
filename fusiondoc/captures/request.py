"""The request of a run, and the part of it that a capture keeps (``request.json``);
the target as the user names it: ``FILE.py``, ``FILE.py:NAME``,
``package.module:NAME`` or ``FILE.pt``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusiondoc.captures.process_records import check_step_function
from fusiondoc.errors import UsageError
from fusiondoc.fusers import COMPILER, DYNAMO, facts_of
from fusiondoc.masking import masked_arguments, masked_variables
from fusiondoc.model import dataclass, field
from fusiondoc.model.change_plan import KeptResults
from fusiondoc.model.remedies import Setting
from fusiondoc.model.run_options import DEFAULTS, RUN_OPTIONS, Offer, command_words
from fusiondoc.model.source import Options
from fusiondoc.model.typed_fields import as_json, read_object
from fusiondoc.probe.pass_inputs import InputTextError, named_input, parse_input

ARCHIVE_ENDINGS = (".pt", ".pth", ".ts")
"""Extensions of TorchScript archives; torch decides whether a file is one."""

IN_PROCESS = "process"
"""Kind of target of a capture that a program made of itself: it cannot be run
again."""

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_EXPORTED = ".pt2"
_FORMS = "A target is FILE.py, FILE.py:NAME, package.module:NAME or a TorchScript archive FILE.pt."


@dataclass(frozen=True)
class TargetSpec:
    """The target of a run. ``kind`` is "file", "module" or "archive"; ``path`` is
    absolute (None for a module); ``call`` is the text of the arguments with which
    ``name`` is called, such as "(8, bias=False)" (None: it is not called)."""

    text: str
    kind: str
    path: Path | None = None
    module: str | None = None
    name: str | None = None
    call: str | None = None

    @property
    def label(self) -> str:
        """Its name in messages."""
        named = f":{self.name}{self.call or ''}" if self.name else ""
        return f"{self.path.name if self.path else self.module}{named}"

    @property
    def slug(self) -> str:
        """A name for folders: letters, digits, dots and underscores."""
        stem = self.path.stem if self.path else str(self.module)
        name = f"{stem}.{self.name}" if self.name and self.name != "model" else stem
        return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._")[:60] or "target"

    def as_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "kind": self.kind,
            "path": str(self.path) if self.path else None,
            "module": self.module,
            "name": self.name,
            "call": self.call,
        }


def parse_target(text: str, cwd: Path | None = None) -> TargetSpec:
    """Read a TARGET; relative paths start at ``cwd`` (by default the current
    folder).

    Raises:
        UsageError: there is no such file, or the text has none of the four forms.
    """
    folder = cwd or Path.cwd()
    file_text, name, call = _split_name(text)
    if name is not None and not _DOTTED.match(name):
        raise UsageError(f"'{name}' in '{text}' is not a Python name", _FORMS)
    if call is not None:
        _must_be_literals(text, f"{name}{call}")
    path = folder / file_text
    ending = path.suffix.lower()
    if ending == ".py" or ending in ARCHIVE_ENDINGS:
        _must_be_file(path, file_text)
        if ending == ".py":
            return TargetSpec(
                text, "file", path=path.absolute(), name=name, call=call
            )
        if name is not None:
            raise UsageError(
                f"'{text}': an archive holds one model, so there is no ':{name}'",
                _FORMS,
            )
        return TargetSpec(text, "archive", path=path.absolute())
    if _DOTTED.match(file_text) and name is not None:
        return TargetSpec(text, "module", module=file_text, name=name, call=call)
    raise UsageError(
        f"'{text}' is not a target" + _why_not(path, file_text),
        _next_step(path, file_text),
    )


def parse_module(text: str) -> TargetSpec:
    """The target of ``-m NAME``.

    Raises:
        UsageError: it is no valid module name.
    """
    if not _DOTTED.match(text) or text.endswith(".py"):
        if text.endswith(".py"):
            hint = f"For a file: --script {text}."
        else:
            hint = "For example: -m package.train -- ARGS"
        raise UsageError(f"-m {text}: not the name of a module", hint)
    return TargetSpec(text, "module", module=text)


def _split_name(text: str) -> tuple[str, str | None, str | None]:
    """Return the file or module, the name in it, and the text of its call's
    arguments."""
    call = text.find("(") if text.endswith(")") else -1
    if call >= 0 and ":" in text[:call]:
        named, called = text[:call], text[call:]
    else:
        named, called = text, None
    head, colon, tail = named.rpartition(":")
    if not colon or tail.endswith((".py", *ARCHIVE_ENDINGS)) or "/" in tail:
        return text, None, None
    return head, tail, called


def _must_be_literals(text: str, expression: str) -> None:
    """Refuse a call whose arguments are not numbers, strings and the like: a target
    is no program."""
    try:
        call = ast.parse(expression, mode="eval").body
        if not isinstance(call, ast.Call) or isinstance(call.func, ast.Call):
            raise ValueError(expression)
        for argument in [*call.args, *(given.value for given in call.keywords)]:
            ast.literal_eval(argument)
        if any(given.arg is None for given in call.keywords):
            raise ValueError(expression)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise UsageError(
            f"'{expression}' in '{text}' cannot be called as it stands: its arguments must be plain values",
            "For example: model.py:Net(8, bias=False); for anything else write model = ... into the file.",
        ) from None


def _must_be_file(path: Path, text: str) -> None:
    if path.is_file():
        return
    if path.is_dir():
        raise UsageError(f"'{text}' is a folder", _FORMS)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder '{Path(text).parent}'", _FORMS)
    endings = (".py", *ARCHIVE_ENDINGS)
    folder = Path(text).parent
    known = []
    for file in path.parent.iterdir():
        if file.suffix in endings:
            known.append(file.name)
    known.sort()
    where = "here" if path.parent == Path.cwd() else f"in '{folder}'"
    from difflib import (
        get_close_matches,
    )  # 0.8 % of a short parse, for a typing error

    near = get_close_matches(path.name, known, n=3, cutoff=0.6)
    if near:
        hint = (
            "Did you mean "
            + " or ".join(f"'{folder / name}'" for name in near)
            + "?"
        )
    elif known:
        hint = f"There are {where}: {', '.join(known[:10])}{', ...' if len(known) > 10 else '.'}"
    else:
        hint = f"There are no .py or .pt files {where}."
    raise UsageError(f"there is no file '{text}'", hint)


def _why_not(path: Path, text: str) -> str:
    if path.is_dir():
        return ": it is a folder"
    if path.suffix.lower() == _EXPORTED:
        return ": it is an archive of torch.export, compiled or not, which no TorchScript fuser runs"
    if path.is_file():
        if path.suffix:
            return f": the ending '{path.suffix}' is unknown"
        return ": it has no ending"
    return ""


def _next_step(path: Path, text: str) -> str:
    if path.suffix.lower() == _EXPORTED:
        return (
            "Name the Python that makes the model: FILE.py:NAME. To see what torch.compile makes of it: "
            f"fusiondoc bench FILE.py --variant eager --variant {COMPILER}"
        )
    if path.is_file() and path.suffix in (
        ".log",
        ".txt",
        ".gz",
        ".xz",
        ".bz2",
        ".zst",
        ".out",
        ".err",
    ):
        return f"For a report from a log: fusiondoc parse {text}"
    if path.with_name(path.name + ".py").is_file():
        return f"Did you mean {text}.py? {_FORMS}"
    if _DOTTED.match(text) and not path.exists():
        return f"For a module give the name too: {text}:model; to run it as a program: -m {text}. {_FORMS}"
    return _FORMS


def check_inputs(texts: Sequence[str]) -> None:
    """Refuse invalid texts of ``--input`` (UsageError)."""
    for text in texts:
        try:
            parse_input(named_input(text)[1])
        except InputTextError as error:
            raise UsageError(
                str(error),
                "For example: --input 'float32[8,128,1024]:grad' or --input 0.5",
            ) from None


@dataclass(frozen=True)
class RunRequest:
    """A run of a target under a fuser.

    ``inputs`` are the texts of ``--input``; ``script`` runs the file as a script;
    its steps are calls of ``step_function`` (None: of its optimiser); ``timeout``
    is in seconds; ``dumps`` are names of ``--dump`` beyond the usual ones;
    ``device`` None leaves everything where the program puts it.
    """

    target: TargetSpec
    python: Path
    fuser: str = DEFAULTS["fuser"]
    frontend: str = DEFAULTS["frontend"]
    """The frontend that builds the fusion groups: "torchscript", "aot", "te" or
    "dynamo"; "auto" is the one that the target uses."""
    recipes: tuple[str, ...] = ()
    """Recipes of te.ops under which to run, one after another; if empty, the
    model's own."""
    runs: int = DEFAULTS["runs"]
    backward: bool = False
    trace: bool = False
    script: bool = False
    script_args: tuple[str, ...] = ()
    step_function: str | None = None
    inputs: tuple[str, ...] = ()
    device: str | None = None
    seed: int | None = None
    timeout: float = DEFAULTS["timeout"]
    knobs: Mapping[str, str] = field(default_factory=dict)
    dumps: tuple[str, ...] = ()
    verify: bool = False
    """Compare every pass with an eager one."""
    mode: str = DEFAULTS["mode"]
    """The mode of torch.compile."""
    dynamic: bool = False
    """Torch.compile compiles once for any size."""
    no_run: bool = False
    """Torch.compile generates kernels, and neither compiles nor runs them."""
    no_freeze: bool = False
    """Do not freeze a module for a fuser that sees weights only in frozen
    modules."""
    freeze: bool = False  # the same under every fuser, in eval mode
    eval: bool = False  # a module is put into that mode before it is scripted
    in_place_off: bool = False
    log_limit: int = DEFAULTS["log_limit"]
    """Limit in MiB; of a longer log the head, the tail and the lines about fusion
    between them are kept."""
    timing: bool = False
    """Time passes, eager against fused, without any log or dump."""
    timing_rounds: int | None = None
    """Number of rounds of each way; None: the default of the probe."""
    profile: bool = False
    """Run steps, or the script, under torch's profiler, without any log or dump."""
    launcher: tuple[
        str, ...
    ] = ()  # of torch.distributed.run, which then starts the processes
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables on top of those that the fuser needs."""
    overlay: Mapping[str, str] = field(default_factory=dict)
    """Source files of the program -> files whose text runs instead of theirs
    (``fix``)."""
    results: KeptResults | None = None
    threads: int | None = None
    """Number of torch's CPU threads, for a model on a GPU that runs concurrently
    with others; None: torch's default."""
    record_inputs: bool = False
    """Record the files that the program reads (``probe/input_watch.py``)."""
    cwd: Path = field(default_factory=Path.cwd)
    command: tuple[str, ...] = ()
    """The command line given by the user; only kept in the capture."""
    model: str | None = None
    """The model's name (``captures/model_identity.py``), if it is known before the
    run."""

    def check(self) -> None:
        """Raise UsageError for a request that is recognisably wrong before a
        process starts."""
        check_inputs(self.inputs)
        if self.script and self.target.kind == "archive":
            raise UsageError(
                "--script takes a Python file", f"'{self.target.text}' is none."
            )
        check_step_function(self.step_function)
        if self.script and (self.target.name or self.inputs):
            what = f":{self.target.name}" if self.target.name else "--input"
            raise UsageError(
                f"--script runs the file as it is, so {what} has no meaning",
                "Leave one of them out.",
            )
        if self.target.kind == "archive" and not self.inputs:
            raise UsageError(
                f"an archive has no inputs of its own: {self.target.label} needs --input",
                "Give one --input for each argument, such as --input 'float32[8,128]'.",
            )
        _check_frontend(self)
        if self.runs < 1:
            raise UsageError(
                f"--runs {self.runs}: at least 1 is needed",
                "A group appears in the second or third run.",
            )
        if not self.timeout > 0:
            raise UsageError(
                f"--timeout {self.timeout:g}: it must be more than 0 seconds",
                "For example: --timeout 60",
            )

    def with_setting(self, setting: Setting) -> RunRequest:
        """The run with other settings."""
        flags: dict[str, Any] = {}
        for flag in setting.flags:
            flags[flag.strip("-").replace("-", "_")] = True
        return replace(
            self,
            fuser=setting.fuser or self.fuser,
            runs=setting.runs or self.runs,
            knobs={**self.knobs, **setting.knobs},
            **flags,
        )

    def options(self) -> Options:
        """The options in the form in which the capture stores them."""
        return Options(
            **{option.name: getattr(self, option.name) for option in RUN_OPTIONS}
        )

    def argv(self) -> list[str]:
        """The command-line arguments of ``fusiondoc`` for this run, without the
        interpreter."""
        return KeptRequest(
            target=KeptTarget(self.target.text, self.target.kind),
            options=self.options(),
        ).argv()


def _check_frontend(request: RunRequest) -> None:
    """Refuse options of torch.compile for a run without it, and the reverse
    (UsageError)."""
    title = facts_of(COMPILER).title
    compiled = request.fuser == COMPILER or request.frontend == DYNAMO.name
    if compiled and (
        request.fuser not in ("auto", COMPILER)
        or request.frontend not in ("auto", DYNAMO.name)
    ):
        raise UsageError(
            f"--fuser {request.fuser} does not go with --frontend {request.frontend}",
            f"{title} is the fuser of torch.compile: --fuser {COMPILER}, or --frontend {DYNAMO.name}.",
        )
    if request.no_run and (request.verify or request.timing or request.profile):
        raise UsageError(
            "--no-run computes no results: there is nothing to compare or to time",
            "Leave one of them out.",
        )
    if request.no_run and request.fuser not in ("auto", COMPILER):
        raise UsageError(f"--no-run is for {title}", f"Add --fuser {COMPILER}.")


@dataclass(frozen=True)
class KeptTarget:
    """A target as stored in a capture: the known fields of ``TargetSpec``."""

    text: str | None = None
    kind: str | None = None
    path: str | None = None
    module: str | None = None
    name: str | None = None
    call: str | None = None


@dataclass(frozen=True)
class KeptRequest:
    """The request of a run, and its interpreter and torch."""

    schema: str | None = None
    fusiondoc: str | None = None
    """The version of fusiondoc that made the capture."""
    created: str | None = None
    """Time in ISO 8601, UTC."""
    command: tuple[str, ...] = ()
    cwd: str | None = None
    target: KeptTarget = KeptTarget()
    model: str | None = None
    """The name of its model, as defined in ``captures/model_identity.py``."""
    options: Options = Options()
    environment_set: Mapping[str, str] = field(default_factory=dict)
    """Variables that fusiondoc set."""
    environment_user: Mapping[str, str] = field(default_factory=dict)
    """The user's variables that affect a run."""
    merged: tuple[str, ...] = ()
    """Variables that combine the user's values and fusiondoc's."""
    dropped: tuple[str, ...] = ()
    """The user's variables that were dropped for the run."""
    notes: tuple[str, ...] = ()
    python: str | None = None
    python_version: str | None = None
    torch: str | None = None
    commit: str | None = None
    """Commit of the program, if it is in a git repository."""
    host: str | None = None
    """Name of the machine that ran it, from ``platform.node()``."""
    masked: tuple[str, ...] = ()
    """Fields whose secrets were masked before they were written, such as
    "script_args": a run needs them again."""
    bundled: bool = False
    """It came in a bundle for a bug report: names in it are replaced, and it is
    never run again."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeptRequest:
        """The fields that could be read; the others keep their defaults."""
        return read_object(cls, data) or cls()

    def as_json(self) -> dict[str, Any]:
        """The content of the file."""
        content: dict[str, Any] = as_json(self)
        return content

    def without_secrets(self) -> KeptRequest:
        """The form to write: with secrets in arguments and variables masked;
        ``masked`` names the fields."""
        options = replace(
            self.options, script_args=masked_arguments(self.options.script_args)
        )
        made = replace(
            self,
            command=masked_arguments(self.command),
            options=options,
            environment_set=masked_variables(self.environment_set),
            environment_user=masked_variables(self.environment_user),
        )
        names = []
        for name in ("command", "environment_set", "environment_user"):
            if getattr(made, name) != getattr(self, name):
                names.append(name)
        if options != self.options:
            names.append("script_args")
        return replace(made, masked=tuple(names))

    def argv(
        self, more: Sequence[str] = (), command: str = "diagnose"
    ) -> list[str]:
        """Return the command-line arguments of ``fusiondoc`` that repeat the run.

        Args:
            more: further options, which replace those of the run.
            command: a command that runs a model.
        """
        options = self.options
        if command == "diagnose":
            offers = Offer.COMMANDS | Offer.DIAGNOSE
        else:
            offers = Offer.COMMANDS
        values = dict(vars(options))
        words = [command, self.target.text or ""]
        if options.script and self.target.kind == "module":
            words.insert(1, "-m")  # which stands for --script
            del values["script"]
        if command == "fix":
            values["no_run"] = False  # it compares results
        words += command_words(values, offers, more)
        if offers & Offer.DIAGNOSE:
            for word in options.launcher:
                if word != STANDALONE:
                    words.append(_launcher_word(word))
        if "--python" in self.command[:-1]:
            words += ["--python", self.command[self.command.index("--python") + 1]]
        words += more
        if options.script_args:
            words += ["--", *options.script_args]
        return words

    def off_by_variable(self, fuser: str | None) -> str | None:
        """The variable with its value, if it is set and switches that fuser off,
        whatever the program does."""
        off = facts_of(fuser).switches.off_by_variable
        if off is None or self.variables.get(off[0]) != off[1]:
            return None
        return "=".join(off)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the run that affect fusion."""
        return {**self.environment_user, **self.environment_set}


STANDALONE = "--standalone"
"""The arguments of torch's launcher if all processes are on this machine."""


def _launcher_word(word: str) -> str:
    """Convert an option of torch's launcher to fusiondoc's spelling:
    ``--nproc-per-node=2`` for ``--nproc_per_node=2``."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}"
