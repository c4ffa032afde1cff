"""The use of TorchScript and torch.compile by a script: its models and its
steps."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class ScriptModel:
    """A model that the program scripted, traced or loaded, or several of one
    type."""

    name: str
    """Its class, function or archive; if there are several, the paths of layers
    begin with it."""
    how: str
    """"scripted", "traced" or "loaded"; followed by ", frozen" if it was frozen
    too."""
    at: str | None
    """``file:line`` that made the first of these models."""
    count: int
    planned: bool | None
    """True if an execution plan was made of it by the end of the run; None if the
    model no longer existed then."""
    groups: tuple[str, ...]
    """Ids of the rows of groups that are in it."""
    operators_outside: int
    """Number of its tensor operators in no group."""


@dataclass(frozen=True)
class ScriptRun:
    """The models and steps of the program."""

    models: tuple[ScriptModel, ...]
    steps: int
    """Number of steps; 0 if it is not known what a step is."""
    step_by: str | None
    """The call that is a step: "AdamW.step", or the function named by
    ``--step-function``."""
    compiled_frames: int
    """Number of Python functions that torch.compile took."""
    compiled_graphs: int
    inductor_kernels: int
    reached: bool
    """True if TorchScript ran anything that it made a plan or a profile of."""

    @property
    def instead(self) -> str:
        """What ran instead if TorchScript was not reached: "eager PyTorch, 4 times
        SGD.step"."""
        taken = f", {self.steps} times {self.step_by}" if self.steps else ""
        if not self.compiled_graphs:
            return f"eager PyTorch{taken}"
        kernels = ""
        if self.inductor_kernels:
            kernels = f", inductor kernels: {self.inductor_kernels}"
        functions, graphs = self.compiled_frames, self.compiled_graphs
        return f"torch.compile (functions: {functions}, graphs: {graphs}{kernels}){taken}"
