"""Which dumps a run under a fuser can print: refusing the others before it, and what each needs to be set."""

from __future__ import annotations

from typing import Mapping, Sequence

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue, checks
from fusiondoc.fuser_knobs.catalogue import TorchVersion, as_version
from fusiondoc.fuser_knobs.checks import DUMP
from fusiondoc.fuser_knobs.entries import FuserDump, describe, exists_in
from fusiondoc.fuser_knobs.log_levels import VARIABLE as JIT_LOG
from fusiondoc.fuser_knobs.log_levels import merge_log_levels, parse_log_level
from fusiondoc.model.fusers import fuser_title

_ONE_OF = (("cuda_kernel", "cuda_full"), ("fusion_ir", "fusion_ir_math"))
"""nvFuser prints the first of two where both are asked for, without a word on the other
(torch/csrc/jit/codegen/cuda/executor.cpp: else-if)."""

USUAL = {"nnc": ("nnc_ir",), "onednn": ("onednn_verbose",)}
"""Without these a log of NNC or oneDNN Graph tells of no kernel at all."""


def check_dumps(names: Sequence[str], fuser: str, torch_version: TorchVersion, nvfuser: bool) -> None:
    """UsageError unless a run under ``fuser`` (as requested, also "auto") of this torch can print each.

    ``nvfuser``: whether this torch has nvFuser at all. "auto" means nvFuser or NNC, never oneDNN Graph.
    """
    for name in names:
        _check(name, fuser, torch_version, nvfuser)
    for kept, lost in _ONE_OF:
        if kept in names and lost in names:
            raise UsageError(
                f"nvFuser prints no {lost} where {kept} is asked for too", f"Leave out one: --dump {lost}"
            )


def _check(name: str, fuser: str, torch_version: TorchVersion, nvfuser: bool) -> None:
    known = catalogue.fuser_dump(name)
    if known is not None:
        _check_fuser_dump(known, fuser, torch_version)
        return
    if fuser in ("auto", "nvfuser") and (nvfuser or not catalogue.fuser_dumps(torch_version)):
        checks.check_dump_option(name, torch_version)
        return
    meant = "nnc" if fuser == "auto" else fuser
    can = [dump.name for dump in catalogue.fuser_dumps(torch_version) if dump.fuser == meant]
    prints = f"Under {fuser_title(meant)}: --dump {', '.join(can)}" if can else None
    if name in catalogue.dump_options():
        if fuser == "nvfuser":
            checks.check_dump_option(name, torch_version)
        under = fuser_title(fuser)
        why = "this torch has no nvFuser" if fuser == "auto" else f"the run is under {under}"
        raise UsageError(f"'{name}' is a dump of nvFuser, and {why}", prints)
    if fuser == "none" or not can:
        raise UsageError(
            f"there is no dump '{name}'" if can else f"with --fuser {fuser} there is nothing to dump", prints
        )
    raise UsageError(f"there is no dump '{name}'. {did_you_mean(name, can)}", prints)


def _check_fuser_dump(dump: FuserDump, fuser: str, torch_version: TorchVersion) -> None:
    version = as_version(torch_version)
    if not exists_in(dump.live, version):
        raise UsageError(
            f"torch {describe(dump.live)} prints '{dump.name}', not torch {torch_version}",
            "fusiondoc knobs lists what this torch prints.",
        )
    if fuser == dump.fuser or (fuser == "auto" and dump.fuser == "nnc"):
        return
    instead = f"Use --fuser {dump.fuser}."
    raise UsageError(f"'{dump.name}' is a dump of {fuser_title(dump.fuser)}, not of --fuser {fuser}", instead)


def nvfuser_options(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that go into PYTORCH_NVFUSER_DUMP."""
    return tuple(name for name in names if catalogue.fuser_dump(name) is None)


def without_hidden(usual: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Those of ``usual`` that hide none of ``asked``."""
    hiding = {kept for kept, lost in _ONE_OF if lost in asked}
    return tuple(name for name in usual if name not in hiding)


def is_set(name: str, variables: Mapping[str, str]) -> bool:
    """Whether a run under these environment variables prints the dump, if its fuser worked."""
    dump = catalogue.fuser_dump(name)
    if dump is None:
        asked = variables.get(DUMP, "").split(",")
        return name in asked and not any(lost == name and kept in asked for kept, lost in _ONE_OF)
    for variable, value in dump.needs:
        have = variables.get(variable, "")
        if variable == JIT_LOG:
            levels = {wish.name: wish.level for wish in reversed(parse_log_level(have))}
            if any(levels.get(wish.name, -1) < wish.level for wish in parse_log_level(value)):
                return False
        elif have in ("", "0", "none", "error"):
            return False
    return True


def how_to_set(names: Sequence[str]) -> str:
    """What to set in one's own launcher, as a shell would have it. Dumps of nvFuser name no kernel but by the
    code that is printed with them."""
    wanted: dict[str, str] = {}
    options = nvfuser_options(names)
    if options:
        usual = without_hidden(("cuda_kernel",), options)
        wanted[DUMP] = ",".join(dict.fromkeys([*usual, *options]))
    for name in names:
        dump = catalogue.fuser_dump(name)
        for variable, value in dump.needs if dump is not None else ():
            wanted[variable] = (
                merge_log_levels(wanted.get(variable, ""), value)[0] if variable == JIT_LOG else value
            )
    quoted = ((variable, f"'{value}'" if ">" in value else value) for variable, value in wanted.items())
    return " ".join(f"{variable}={value}" for variable, value in quoted)


def together(had: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Both, without those of ``had`` that cannot be printed beside ``asked``."""
    apart = {one for pair in _ONE_OF if set(pair) & set(asked) for one in pair if one not in asked}
    return tuple(dict.fromkeys([*(name for name in had if name not in apart), *asked]))
