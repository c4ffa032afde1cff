"""What a script did with TorchScript and torch.compile: its models and its
steps."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class ScriptModel:
    """A model that the program scripted, traced or loaded, or several of one
    type."""

    name: str
    """Its class, function or archive; where there are several, layers begin with
    it."""
    how: str
    """"scripted", "traced" or "loaded"; ", frozen" behind it if that was done
    too."""
    at: str | None
    """``file:line`` that made the first of them."""
    count: int
    planned: bool | None
    """Whether an execution plan was made of it by the end of the run; None where it
    was gone by then."""
    groups: tuple[str, ...]
    """Ids of the rows of groups that are in it."""
    operators_outside: int
    """Tensor operators of it in no group."""


@dataclass(frozen=True)
class ScriptRun:
    """What the program did."""

    models: tuple[ScriptModel, ...]
    steps: int
    """How many steps it took; 0 where nothing tells what a step is."""
    step_by: str | None
    """What a step is: "AdamW.step", or the function named by
    ``--step-function``."""
    compiled_frames: int
    """Python functions that torch.compile took."""
    compiled_graphs: int
    inductor_kernels: int
    reached: bool
    """Whether TorchScript ran anything that a plan or a profile was made of."""

    @property
    def instead(self) -> str:
        """What it ran where TorchScript was not reached: "eager PyTorch, 4 times
        SGD.step"."""
        taken = f", {self.steps} times {self.step_by}" if self.steps else ""
        if not self.compiled_graphs:
            return f"eager PyTorch{taken}"
        kernels = (
            f", inductor kernels: {self.inductor_kernels}"
            if self.inductor_kernels
            else ""
        )
        functions, graphs = self.compiled_frames, self.compiled_graphs
        return f"torch.compile (functions: {functions}, graphs: {graphs}{kernels}){taken}"
