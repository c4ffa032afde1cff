"""Refuse settings that a torch version or a fuser does not know before a run; list
the settings that each dump needs; and parse PYTORCH_JIT_LOG_LEVEL as torch does.

torch itself stays silent: an unknown dump option makes every group fall back
without naming the option (seen on 2.0.1 and 2.1.2), and an unknown log file or
separator prints nothing.

Log levels are split at ':' only; a word is '>' signs and the name of a file without
folder and ending. Level 0 prints dumps, '>' updates too, '>>' and more everything.
The first of two equal names wins. torch ignores unknown names silently
(torch/csrc/jit/jit_log.cpp, same in 1.11 to 2.13).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusiondoc.errors import UsageError, did_you_mean, nearest
from fusiondoc.fuser_knobs import catalogue, describe, exists_in, hull
from fusiondoc.fuser_knobs.catalogue import TorchVersion, as_version
from fusiondoc.fuser_knobs.variable_table import OPTIONS
from fusiondoc.fusers import FUSERS, fuser_title, pass_files
from fusiondoc.fusers.knob_rows import FuserDump, Knob
from fusiondoc.numbers import all_whole

JIT_LOG = "PYTORCH_JIT_LOG_LEVEL"
_HIGHEST = 2


class Wish(NamedTuple):
    """A word of PYTORCH_JIT_LOG_LEVEL: the file name and level as torch parses
    them, and the word itself."""

    name: str
    level: int
    word: str


def parse_log_level(text: str) -> tuple[Wish, ...]:
    """The words of a value as torch parses them; nothing is checked."""
    wishes = []
    for word in text.split(":"):
        if not word:
            continue
        signs = word.rfind(">") + 1
        name = word[signs:]
        wishes.append(
            Wish(name.rpartition(".")[0] or name, min(signs, _HIGHEST), word)
        )
    return tuple(wishes)


def check_log_level(
    text: str, torch_version: TorchVersion = None
) -> tuple[str, ...]:
    """Return the names of files in the value; UsageError with the right spelling if
    torch would print nothing for one of its words."""
    corrected = _spelling(text)
    for wish in parse_log_level(corrected):
        _check_name(wish.name, torch_version)
    if corrected != text:
        raise UsageError(
            f"{JIT_LOG}={text!r} prints nothing for part of it: file names without folder, separated by ':' "
            "only, without spaces.",
            f"Write {JIT_LOG}='{corrected}'",
        )
    return tuple(wish.name for wish in parse_log_level(text))


def log_level_notes(
    text: str, torch_version: TorchVersion = None
) -> tuple[str, ...]:
    """Notes on parts of the value that have no effect although each word is known:
    a level at which a file prints nothing, and a name that occurs twice."""
    version = as_version(torch_version)
    least = {file.name: file.least for file in catalogue.log_files(version)}
    notes, seen = [], set()
    for wish in parse_log_level(text):
        if wish.name in seen:
            notes.append(
                f"'{wish.word}' is ignored: torch takes the first '{wish.name}'."
            )
        elif wish.level < least.get(wish.name, 0):
            word = ">" * least[wish.name] + wish.name
            notes.append(
                f"'{wish.word}' prints nothing: {wish.name} needs '{word}'."
            )
        seen.add(wish.name)
    return tuple(notes)


def merge_log_levels(user: str, needed: str) -> tuple[str, tuple[str, ...]]:
    """Add the needed log levels to the user's value: each file once, at the higher
    level.

    Returns the merged value and a sentence for each change; no sentences if the
    user's value suffices.
    """
    levels: dict[str, int] = {}
    notes = []
    for wish in parse_log_level(user):
        levels.setdefault(wish.name, wish.level)
    added = []
    for wish in parse_log_level(needed):
        before = levels.get(wish.name)
        levels[wish.name] = max(wish.level, before or 0)
        if before is None:
            added.append(_word(wish.name, wish.level))
        elif before < wish.level:
            notes.append(
                f"'{_word(wish.name, before)}' raised to '{_word(wish.name, wish.level)}'."
            )
    if added:
        notes.insert(0, "added " + ", ".join(f"'{word}'" for word in added) + ".")
    return ":".join(_word(name, level) for name, level in levels.items()), tuple(
        notes
    )


def _word(name: str, level: int) -> str:
    return ">" * level + name


def _spelling(text: str) -> str:
    """The spelling that the writer of the value probably meant: ':' between words,
    no spaces, no folders, no extensions."""
    words = []
    for word in re.split(r"[:,;\s]+", text):
        match = re.match(r"(>*)(.*)\Z", word)
        if match is None or not word:
            continue
        signs, name = match.groups()
        name = re.split(r"[/\\]", name)[-1]
        # torch itself cuts a single ending, so a plain 'graph_fuser.cpp' is right
        # as it stands.
        words.append(
            signs
            + (
                name
                if "/" not in word and "\\" not in word
                else name.rpartition(".")[0] or name
            )
        )
    return ":".join(words)


def _check_name(name: str, torch_version: TorchVersion) -> None:
    version = as_version(torch_version)
    files = {file.name: file for file in catalogue.log_files()}
    file = files.get(name)
    if file is not None and exists_in(file.live, version):
        return
    if file is not None and version is not None:
        raise UnknownWord(
            f"'{name}' writes to the log in torch {describe(file.live)}, not in "
            f"torch {'.'.join(map(str, version))}.",
            f"Leave it out of {JIT_LOG}.",
        )
    known = catalogue.log_files(version)
    guess = nearest(name, [entry.name for entry in known])
    if guess is None:
        # The whole list is long and mostly about other things than fusion.
        guess = did_you_mean(name, [entry.name for entry in known if entry.does])
    raise UnknownWord(
        f"no file '{name}' of torch writes to the log: {JIT_LOG} would print nothing for it. {guess}",
        f"It takes names of C++ files of torch without folder, such as {' or >>'.join(pass_files())}.",
    )


LOG_LEVELS = {
    **{
        fuser.name: fuser.switches.log_level
        for fuser in FUSERS.values()
        if fuser.switches.log_level is not None
    },
    "none": "profiling_graph_executor_impl",
}
"""Fuser -> value of PYTORCH_JIT_LOG_LEVEL."""

KERNEL_DUMPS = (
    "cuda_kernel",
    "launch_param",
    "dump_eff_bandwidth",
    "ptxas_verbose",
)
"""Dump options from which the kernel table of a report is made."""


DUMP, ENABLE, DISABLE = OPTIONS

WITH_OPTIONS = next(fuser for fuser in FUSERS.values() if fuser.catalogue.options)
"""The fuser whose dumps are options of a variable."""

INSTEAD = WITH_OPTIONS.instead[0]
"""The fuser that "auto" selects if this torch does not have that fuser."""

_FALLS_BACK = (
    f"An unknown option makes every {WITH_OPTIONS.title} group fall back. "
)

_SEE = "fusiondoc knobs lists them with what they do."


def _torch(torch_version: TorchVersion) -> str:
    version = as_version(torch_version)
    if version is None:
        return "torch"
    return "torch " + ".".join(map(str, version))


class UnknownWord(UsageError):
    """A word in the value of a variable that this torch does not know; the message
    contains the word alone."""


def _check_option(
    variable: str, name: str, torch_version: TorchVersion = None
) -> None:
    """Raise UnknownWord unless this torch knows the option of a variable."""
    version = as_version(torch_version)
    known = []
    for option in OPTIONS[variable]:
        if exists_in(option.live, version):
            known.append(option.name)
    if name in known:
        return
    elsewhere = [option for option in OPTIONS[variable] if option.name == name]
    if not known:
        raise UnknownWord(
            f"{_torch(version)} knows no option of {variable}, so not '{name}'.",
            f"It has options in torch {hull(one for option in OPTIONS[variable] for one in option.live)}.",
        )
    if elsewhere:
        where = describe(
            tuple(interval for option in elsewhere for interval in option.live)
        )
        instead = ""
        if name == "print_args" and "kernel_args" in known:
            instead = " Use kernel_args."
        raise UnknownWord(
            f"'{name}' is an option of {variable} in torch {where}, not in {_torch(version)}.{instead}",
            _FALLS_BACK + _SEE,
        )
    raise UnknownWord(
        f"{_torch(version)} has no option '{name}' of {variable}. {did_you_mean(name, known)}",
        _FALLS_BACK + _SEE,
    )


def check_option_list(
    variable: str, text: str, torch_version: TorchVersion = None
) -> tuple[str, ...]:
    """Return the options of a list such as "cuda_kernel,launch_param"; UsageError
    with the right spelling otherwise.

    torch splits at commas only and compares each word literally, so spaces and
    empty words are errors.
    """
    words = text.split(",") if text else []
    clean = [word for word in re.split(r"[\s,;:]+", text) if word]
    if words != clean:
        for word in clean:
            _check_option(variable, word, torch_version)
        raise UsageError(
            f"{variable}={text!r}: options are separated by one comma each, without spaces.",
            f"Write {variable}={','.join(clean)}",
        )
    for word in words:
        _check_option(variable, word, torch_version)
    return tuple(words)


def check_dump_option(name: str, torch_version: TorchVersion = None) -> None:
    """Raise UsageError unless this torch knows the option of the dump variable."""
    _check_option(DUMP, name, torch_version)


def merge_option_lists(user: str, needed: str) -> tuple[str, tuple[str, ...]]:
    """Return the user's options followed by the missing needed options, and these
    missing options."""
    have = [word for word in user.split(",") if word]
    added = [word for word in needed.split(",") if word and word not in have]
    return ",".join(have + added), tuple(added)


def check_knob(
    name: str, value: str | None = None, torch_version: TorchVersion = None
) -> Knob:
    """Return the knob; UsageError unless it exists, its value is valid, and this
    torch has it."""
    knob = catalogue.knob(name)
    if knob is None:
        short = name.split(".")[-1]
        by_torch_name = []
        for candidate in catalogue.knobs():
            if name in candidate.in_python or short in (
                candidate.setter,
                candidate.getter,
            ):
                by_torch_name.append(candidate)
        names = [knob.name for knob in catalogue.knobs()]
        meant = (
            f"Its name here is '{by_torch_name[0].name}'."
            if by_torch_name
            else nearest(name, names)
        )
        raise UsageError(
            f"there is no knob '{name}'"
            + (f". {meant}" if meant is not None else ""),
            _SEE,
        )
    version = as_version(torch_version)
    if not exists_in(knob.exists, version):
        raise UsageError(
            f"the knob '{name}' is in torch {describe(knob.exists)}, not in {_torch(version)}.",
            _SEE,
        )
    if value is not None:
        _check_value(knob, value.strip())
    return knob


_SWITCH = ("on", "off", "true", "false", "1", "0", "yes", "no")

_FORMS = {
    "switch": (r"(?i:on|off|true|false|1|0|yes|no)", "on or off"),
    "count": (r"\+?\d+", "a whole number of 0 or more"),
    "integer": (r"[+-]?\d+", "a whole number"),
    "ratio": (r"\d+(?:\.\d+)?", "a number such as 0.5"),
    "strategy": (
        r"(?i:static|dynamic)\s*:\s*\d+(?:\s*,\s*(?i:static|dynamic)\s*:\s*\d+)*",
        "steps such as STATIC:2,DYNAMIC:10",
    ),
    "operators": (
        r"\w+::\w+(?:\s*,\s*\w+::\w+)*",
        "operators such as aten::add,aten::mul",
    ),
    "stream": (r"stdout|stderr", "stdout or stderr"),
}
"""Kind -> the syntax of a value; the probe reads the same forms
(probe/knob_values.py)."""


def value_form(kind: str) -> str:
    """The syntax of values of this kind, in words."""
    if kind in _FORMS:
        return _FORMS[kind][1]
    if kind == "function":
        return "a Python function"
    return "any text"


def _check_value(knob: Knob, value: str) -> None:
    if knob.kind == "function":
        raise UsageError(
            f"the knob '{knob.name}' takes a Python function, which cannot be written here.",
            f"Call {knob.in_python[0]} in your own program.",
        )
    if knob.kind == "text":
        if knob.name == "log_level":
            check_log_level(value)
        return
    form, words = _FORMS[knob.kind]
    if (
        re.fullmatch(form, value)
        and all_whole(re.findall(r"\d+", value)) is not None
    ):
        return
    guess = ""
    if knob.kind == "switch":
        guess = " " + did_you_mean(value.lower(), _SWITCH)
    raise UsageError(
        f"{knob.name}={value}: '{value}' is not {words}.{guess}",
        f"{knob.name}: {knob.does}",
    )


_EXCLUSIVE_PAIRS = (("cuda_kernel", "cuda_full"), ("fusion_ir", "fusion_ir_math"))
"""Pairs of dump options: if both are requested, only the first is printed, without
any message (torch/csrc/jit/codegen/cuda/executor.cpp: else-if)."""

USUAL = {
    fuser.name: fuser.catalogue.usual_dumps
    for fuser in FUSERS.values()
    if fuser.catalogue.usual_dumps
}
"""Dumps without which a log of a fuser names no kernel."""


def check_dumps(
    names: Sequence[str], fuser: str, torch_version: TorchVersion, has_options: bool
) -> None:
    """Raise UsageError unless a run under ``fuser`` (as requested, also "auto") of
    this torch can print each dump.

    ``has_options``: whether this torch has the fuser whose dumps are options of a
    variable. "auto" means that one, or the first to use instead.
    """
    for name in names:
        _check(name, fuser, torch_version, has_options)
    for kept, lost in _EXCLUSIVE_PAIRS:
        if kept in names and lost in names:
            raise UsageError(
                f"{WITH_OPTIONS.title} prints no {lost} where {kept} is requested too",
                f"Leave out one: --dump {lost}",
            )


def _check(
    name: str, fuser: str, torch_version: TorchVersion, has_options: bool
) -> None:
    known = catalogue.fuser_dump(name)
    if known is not None:
        _check_fuser_dump(known, fuser, torch_version)
        return
    if fuser in ("auto", WITH_OPTIONS.name) and (
        has_options or not catalogue.fuser_dumps(torch_version)
    ):
        check_dump_option(name, torch_version)
        return
    meant = INSTEAD if fuser == "auto" else fuser
    can = []
    for dump in catalogue.fuser_dumps(torch_version):
        if dump.fuser == meant:
            can.append(dump.name)
    prints = f"{fuser_title(meant)} can print: {', '.join(can)}." if can else None
    if name in catalogue.dump_options():
        if fuser == WITH_OPTIONS.name:
            check_dump_option(name, torch_version)
        under = fuser_title(fuser)
        missing = f"this torch has no {WITH_OPTIONS.title}"
        why = missing if fuser == "auto" else f"the run is under {under}"
        raise UsageError(
            f"'{name}' is a dump of {WITH_OPTIONS.title}, and {why}", prints
        )
    if fuser == "none" or not can:
        raise UsageError(
            f"there is no dump '{name}'"
            if can
            else f"with --fuser {fuser} there is nothing to dump",
            prints,
        )
    raise UsageError(
        f"there is no dump '{name}'. {did_you_mean(name, can)}", prints
    )


def _check_fuser_dump(
    dump: FuserDump, fuser: str, torch_version: TorchVersion
) -> None:
    version = as_version(torch_version)
    if not exists_in(dump.live, version):
        raise UsageError(
            f"torch {describe(dump.live)} prints '{dump.name}', not torch {torch_version}",
            "fusiondoc knobs lists what this torch prints.",
        )
    if fuser == dump.fuser or (fuser == "auto" and dump.fuser == INSTEAD):
        return
    instead = f"Use --fuser {dump.fuser}."
    raise UsageError(
        f"'{dump.name}' is a dump of {fuser_title(dump.fuser)}, not of --fuser {fuser}",
        instead,
    )


def options_of_dumps(names: Sequence[str]) -> tuple[str, ...]:
    """The names that go into the dump variable."""
    return tuple(name for name in names if catalogue.fuser_dump(name) is None)


def without_hidden(
    usual: Sequence[str], requested: Sequence[str]
) -> tuple[str, ...]:
    """The options of ``usual`` that suppress none of ``requested``."""
    hiding = {kept for kept, lost in _EXCLUSIVE_PAIRS if lost in requested}
    return tuple(name for name in usual if name not in hiding)


LISTS = {
    fuser.switches.log_list[0]
    for fuser in FUSERS.values()
    if fuser.switches.log_list is not None
}
"""Variables that list a fuser's logs, separated by commas."""


def listed(
    names: Sequence[str], variable: str, words: Sequence[str]
) -> tuple[str, ...]:
    """The words of such a variable, with the words that dumps need."""
    dumps = filter(None, map(catalogue.fuser_dump, names))
    needed = []
    for dump in dumps:
        for name, value in dump.needs:
            if name == variable:
                needed.append(value)
    return tuple(dict.fromkeys((*words, *needed)))


def is_set(name: str, variables: Mapping[str, str]) -> bool:
    """True if a run with these environment variables prints the dump, provided its
    fuser is active."""
    dump = catalogue.fuser_dump(name)
    if dump is None:
        requested = variables.get(DUMP, "").split(",")
        return name in requested and not any(
            lost == name and kept in requested for kept, lost in _EXCLUSIVE_PAIRS
        )
    for variable, value in dump.needs:
        have = variables.get(variable, "")
        if variable in LISTS:
            if value not in [word.lstrip("+") for word in have.split(",")]:
                return False
            continue
        if variable == JIT_LOG:
            levels = {}
            for wish in reversed(parse_log_level(have)):
                levels[wish.name] = wish.level
            if any(
                levels.get(wish.name, -1) < wish.level
                for wish in parse_log_level(value)
            ):
                return False
        elif have in ("", "0", "none", "error"):
            return False
    return True


def how_to_set(names: Sequence[str]) -> str:
    """The environment variables to set in the user's launcher for these dumps, in
    shell syntax.

    Options of a variable alone name no kernel; the code that is printed with them
    does.
    """
    wanted: dict[str, str] = {}
    options = options_of_dumps(names)
    if options:
        usual = without_hidden(("cuda_kernel",), options)
        wanted[DUMP] = ",".join(dict.fromkeys([*usual, *options]))
    for name in names:
        dump = catalogue.fuser_dump(name)
        for variable, value in dump.needs if dump is not None else ():
            if variable == JIT_LOG:
                wanted[variable] = merge_log_levels(
                    wanted.get(variable, ""), value
                )[0]
            else:
                if variable in LISTS:
                    wanted[variable] = ",".join(listed(names, variable, ()))
                else:
                    wanted[variable] = value
    quoted = []
    for variable, value in wanted.items():
        quoted.append((variable, f"'{value}'" if ">" in value else value))
    return " ".join(f"{variable}={value}" for variable, value in quoted)


def together(had: Sequence[str], requested: Sequence[str]) -> tuple[str, ...]:
    """Both lists of options, without those of ``had`` that cannot be printed
    together with ``requested``."""
    apart = set()
    for pair in _EXCLUSIVE_PAIRS:
        if set(pair) & set(requested):
            for option in pair:
                if option not in requested:
                    apart.add(option)
    return tuple(
        dict.fromkeys([*(name for name in had if name not in apart), *requested])
    )
