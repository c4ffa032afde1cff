"""Help of commands with many options: ``--help`` shows the most used ones,
``--help-all`` all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from fusiondoc.cli.output import print_result

_HELP_ALL = "--help-all"

Sections = tuple[tuple[str, tuple[str, ...]], ...]
"""A heading and the options below it, as written on a command line."""

_OUTPUT = (
    "Output",
    ("--output", "--format", "--fail-on", "--summary", "--quiet", "--verbose"),
)

SECTIONS: dict[str, Sections] = {
    "diagnose": (
        (
            "The run",
            (
                "--backward",
                "--input",
                "--fuser",
                "--device",
                "--script",
                "--python",
            ),
        ),
        ("A closer look", ("--time", "--verify", "--try")),
        _OUTPUT,
    ),
    "check": (
        ("Expectations", ("--expect", "--update", "--section")),
        ("The run", ("--backward", "--input", "--fuser", "--device", "--python")),
        ("Output", ("--output", "--format", "--fail-on", "--quiet")),
    ),
    "fix": (
        ("The run", ("--backward", "--input", "--fuser", "--device", "--python")),
        ("Changes", ("--apply", "--inference", "--allow-signature", "--tries")),
        ("Output", ("--output", "--format")),
    ),
    "bench": (
        (
            "The runs",
            (
                "--backward",
                "--input",
                "--shapes",
                "--variant",
                "--device",
                "--python",
                "--suite",
            ),
        ),
        ("Output", ("--output", "--format", "--fail-on")),
    ),
    "kernels": (
        ("Kernels", ("--dump", "--kernel", "--group", "--sort", "--top", "--save")),
        ("The run", ("--backward", "--input", "--fuser", "--device")),
        ("Output", ("--output", "--format")),
    ),
}
"""Command -> the options that ``--help`` shows."""


class CommandWithShortHelp(click.Command):
    """A command of the table ``SECTIONS``."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params[:-1], _help_all(), *params[-1:]]

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        options = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                options.append(param)
        shown: set[str] = set()
        for heading, flags in SECTIONS[str(self.name)]:
            _write(
                ctx,
                formatter,
                heading,
                [_with_flag(options, flag) for flag in flags],
            )
            shown.update(flags)
        rest = [option for option in options if shown.isdisjoint(option.opts)]
        if not ctx.meta.get(_HELP_ALL):
            rest = [
                option
                for option in rest
                if not {"--help", _HELP_ALL}.isdisjoint(option.opts)
            ]
        _write(ctx, formatter, "More options", rest)


def _help_all() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, chosen: bool) -> None:
        if chosen and not ctx.resilient_parsing:
            ctx.meta[_HELP_ALL] = True
            print_result(ctx.get_help())
            ctx.exit()

    return click.Option(
        [_HELP_ALL],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show every option and exit.",
    )


def _with_flag(options: Iterable[click.Option], flag: str) -> click.Option:
    return next(option for option in options if flag in option.opts)


def _write(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    heading: str,
    options: Sequence[click.Option],
) -> None:
    records = [option.get_help_record(ctx) for option in options]
    with formatter.section(heading):
        formatter.write_dl([record for record in records if record is not None])
