"""The value of PYTORCH_JIT_LOG_LEVEL: reading it as torch does, refusing what prints nothing, merging two.

torch splits at ':' only; a word is '>' signs and the name of a file without folder and ending. Level 0 prints
dumps, '>' updates too, '>>' and more everything. The first of two equal names wins. What it does not know it
ignores without a word (torch/csrc/jit/jit_log.cpp, same in 1.11 to 2.13).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.catalogue import TorchVersion, as_version
from fusiondoc.fuser_knobs.entries import describe, exists_in

VARIABLE = "PYTORCH_JIT_LOG_LEVEL"
HIGHEST = 2


class Wish(NamedTuple):
    """One word: the file it names as torch reads it, the level, and the word itself."""

    name: str
    level: int
    word: str


def parse_log_level(text: str) -> tuple[Wish, ...]:
    """The words of a value as torch reads them; nothing is checked."""
    wishes = []
    for word in text.split(":"):
        if not word:
            continue
        signs = word.rfind(">") + 1
        name = word[signs:]
        wishes.append(Wish(name.rpartition(".")[0] or name, min(signs, HIGHEST), word))
    return tuple(wishes)


def check_log_level(text: str, torch_version: TorchVersion = None) -> tuple[str, ...]:
    """The names of files in the value; UsageError with the right spelling if torch would print nothing for a
    word of it."""
    corrected = _spelling(text)
    for wish in parse_log_level(corrected):
        _check_name(wish.name, torch_version)
    if corrected != text:
        raise UsageError(
            f"{VARIABLE}={text!r} prints nothing for part of it: file names without folder, separated by ':' "
            "only, without spaces.",
            f"Write {VARIABLE}='{corrected}'",
        )
    return tuple(wish.name for wish in parse_log_level(text))


def log_level_notes(text: str, torch_version: TorchVersion = None) -> tuple[str, ...]:
    """What in the value has no effect although each word of it is known: a level at which a file prints
    nothing, and a name that comes twice."""
    version = as_version(torch_version)
    least = {file.name: file.least for file in catalogue.log_files(version)}
    notes, seen = [], set()
    for wish in parse_log_level(text):
        if wish.name in seen:
            notes.append(f"'{wish.word}' is ignored: torch takes the first '{wish.name}'.")
        elif wish.level < least.get(wish.name, 0):
            word = ">" * least[wish.name] + wish.name
            notes.append(f"'{wish.word}' prints nothing: {wish.name} needs '{word}'.")
        seen.add(wish.name)
    return tuple(notes)


def merge_log_levels(user: str, needed: str) -> tuple[str, tuple[str, ...]]:
    """The user's value with what is needed added: each file once, at the higher level. Also sentences that
    say what was changed; none if the user's value already holds all that is needed."""
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
            notes.append(f"'{_word(wish.name, before)}' raised to '{_word(wish.name, wish.level)}'.")
    if added:
        notes.insert(0, "added " + ", ".join(f"'{word}'" for word in added) + ".")
    return ":".join(_word(name, level) for name, level in levels.items()), tuple(notes)


def _word(name: str, level: int) -> str:
    return ">" * level + name


def _spelling(text: str) -> str:
    """The value as its writer must have meant it: ':' between words, no spaces, no folders, no endings."""
    words = []
    for word in re.split(r"[:,;\s]+", text):
        match = re.match(r"(>*)(.*)\Z", word)
        if match is None or not word:
            continue
        signs, name = match.groups()
        name = re.split(r"[/\\]", name)[-1]
        # torch itself cuts one ending, so a plain 'graph_fuser.cpp' is right as it stands.
        words.append(
            signs + (name if "/" not in word and "\\" not in word else name.rpartition(".")[0] or name)
        )
    return ":".join(words)


def _check_name(name: str, torch_version: TorchVersion) -> None:
    version = as_version(torch_version)
    files = {file.name: file for file in catalogue.log_files()}
    file = files.get(name)
    if file is not None and exists_in(file.live, version):
        return
    if file is not None and version is not None:
        raise UsageError(
            f"'{name}' writes to the log in torch {describe(file.live)}, not in "
            f"torch {'.'.join(map(str, version))}.",
            f"Leave it out of {VARIABLE}.",
        )
    known = catalogue.log_files(version)
    guess = did_you_mean(name, [one.name for one in known])
    if not guess.startswith("Did"):
        # The whole list is long and mostly about other things than fusion.
        guess = did_you_mean(name, [one.name for one in known if one.does])
    raise UsageError(
        f"No file '{name}' of torch writes to the log: {VARIABLE} would print nothing for it. {guess}",
        "It takes names of C++ files of torch without folder, such as graph_fuser or >>tensorexpr_fuser.",
    )


LOG_LEVELS = {
    "nvfuser": "profiling_graph_executor_impl:>partition:graph_fuser:>>kernel_cache:manager",
    "nnc": "profiling_graph_executor_impl:>>tensorexpr_fuser",
    # graph_helper says which operators oneDNN Graph does not take ("Making aten::tanh a wildcard").
    "onednn": "profiling_graph_executor_impl:>>graph_helper",
    # The legacy executor's plans are in graph_executor ("After compileSpec optimizations:").
    "legacy": "profiling_graph_executor_impl:graph_executor",
    "none": "profiling_graph_executor_impl",
}
"""Fuser -> value of PYTORCH_JIT_LOG_LEVEL. With less a fuser says nothing; with more the log grows and tells
no more."""

DUMPS = ("cuda_kernel", "launch_param", "dump_eff_bandwidth", "ptxas_verbose")
"""Options of PYTORCH_NVFUSER_DUMP that the kernel table of a report is made of."""
