"""Remedies of findings, as data: the sentences of reports, and the steps, settings
and commands of the plan, are made from them. Also the settings of a run, which
remedies, the plan and ``--try`` share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from fusiondoc.model import dataclass, field


@dataclass(frozen=True)
class Setting:
    """The differences of a run from the run as it was requested: options of
    ``fusiondoc diagnose``."""

    fuser: str | None = None
    runs: int | None = None
    """Passes of the model."""
    recipe: str | None = None
    """How tensors are quantised: ``--recipe``."""
    knobs: Mapping[str, str] = field(default_factory=dict)
    """Name of a knob, as ``fusiondoc knobs`` lists it -> value."""
    flags: tuple[str, ...] = ()
    """Options without a value, as the command line names them: ``--freeze``."""

    @classmethod
    def of_option(cls, option: str) -> Setting:
        """Return the setting that one option makes, ``--fuser NAME`` or ``--knob
        NAME=VALUE``; the inverse of ``text``."""
        name, _, value = option.partition(" ")
        if name == "--fuser":
            return cls(fuser=value)
        knob, _, value = value.partition("=")
        return cls(knobs={knob: value})

    def with_more(self, more: Setting) -> Setting:
        """Return both settings merged; ``more`` wins."""
        return Setting(
            fuser=more.fuser or self.fuser,
            runs=more.runs or self.runs,
            recipe=more.recipe or self.recipe,
            knobs={**self.knobs, **more.knobs},
            flags=tuple(dict.fromkeys([*self.flags, *more.flags])),
        )

    @property
    def options(self) -> tuple[str, ...]:
        """The options as words of a command line."""
        words: list[str] = []
        for name, value in (
            ("--fuser", self.fuser),
            ("--runs", self.runs),
            ("--recipe", self.recipe),
        ):
            if value is not None:
                words += [name, str(value)]
        for name, value in self.knobs.items():
            words += ["--knob", f"{name}={value}"]
        return (*words, *self.flags)

    @property
    def text(self) -> str:
        """The options as a sentence names them: ``--knob single_node=on``."""
        return " ".join(self.options)


AS_REQUESTED = Setting()
"""Nothing differs."""

FROZEN, TRACED = Setting(flags=("--freeze",)), Setting(flags=("--trace",))
IN_EVAL_MODE = Setting(flags=("--eval",))
"""Puts the model in eval mode before its first pass."""

ANY_SIZE = Setting(knobs={"fusion_strategy": "DYNAMIC:10"})
"""Groups that take tensors of any size."""


class Nothing(Enum):
    """Why nothing is to be changed for a finding; the value is the phrase that
    follows the names of operators."""

    FORMULAS = "torch's own gradient formulas"
    LIBRARY = "kernels of a library, which are no part of groups"
    BETWEEN_LIBRARIES = (
        "between kernels of a library, with nothing else to fuse with"
    )
    OTHER = "another reason, which the advice gives"


@dataclass(frozen=True)
class Remedy:
    """The remedy of a finding. ``Finding.advice`` is its text."""

    step: str
    """The first step, which the plan shows: a sentence or its first clause, with
    its punctuation."""
    more: str = field(default="", metadata={"json": False})
    """The sentences after it: ``Finding.advice`` has them."""
    setting: Setting | None = None
    """The setting of a run that is the remedy; ``step`` or ``more`` names its
    options."""
    nothing: Nothing | None = None
    """Why nothing in the program or the run is to be changed; None if ``step`` is
    to be done."""

    @classmethod
    def of(cls, words: Remedy | str) -> Remedy:
        """Return ``words`` as a remedy; a text becomes its ``step``."""
        if isinstance(words, str):
            return cls(words)
        return words

    @property
    def text(self) -> str:
        """All its sentences."""
        if self.more:
            return f"{self.step} {self.more}"
        return self.step


def nothing(step: str, more: str = "") -> Remedy:
    """Return the remedy that nothing is to be changed, with the reason."""
    return Remedy(step, more, nothing=Nothing.OTHER)
