"""What a shell offers on Tab: files, codes, knobs, captures. Called by click with what is typed so far.

What a completion needs is imported when a shell asks, as every command imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The shell's own completion of file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def codes(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Finding codes, with their titles where the shell shows help."""
    from click.shell_completion import CompletionItem

    from fusiondoc.model.codes import CODES

    known = CODES.values()
    return [CompletionItem(one.code, help=one.title) for one in known if one.code.startswith(typed.upper())]


def severities_and_codes(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """What --fail-on takes."""
    from fusiondoc.model.report import SEVERITIES

    return [*_that_fit(SEVERITIES, typed), *codes(ctx, param, typed)]


def knobs(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Knobs and environment variables."""
    from fusiondoc.fuser_knobs.catalogue import knobs, variables

    return _that_fit([*(one.name for one in knobs()), *(one.name for one in variables())], typed)


def knob_settings(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """``NAME=`` of each knob."""
    from fusiondoc.fuser_knobs.catalogue import knobs

    return _that_fit([f"{knob.name}=" for knob in knobs()], typed)


def dump_options(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Options of PYTORCH_NVFUSER_DUMP and dumps of other fusers, behind the last comma."""
    from fusiondoc.fuser_knobs.catalogue import dump_options, fuser_dumps

    before, comma, _ = typed.rpartition(",")
    names = [*dump_options(), *(dump.name for dump in fuser_dumps())]
    return _that_fit([before + comma + name for name in names], typed)


def captures(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The captures of the current folder, newest first."""
    from fusiondoc.captures.store import CaptureStore

    return _that_fit([path.name for path in CaptureStore().paths()], typed)


def _that_fit(names: Iterable[str], typed: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(typed) and name.isprintable()]
