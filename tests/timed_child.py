"""A child of a bench without a process: its steps take what a test says."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.runner.bench_child import Died, Round, WarmedShape


class TimedChild:
    """Stands for a process: ``step`` seconds a step, but for what the machine adds;
    dies where told."""

    log = records = Path("nowhere")
    chosen = facts = problem = None

    def __init__(self, step: float, dies: bool = False) -> None:
        self._step, self._dies = step, dies
        self.inputs = self.unfit = {}
        self.ready: dict[int, WarmedShape] = {}

    def warm_up(self, record: bool = False) -> None:
        if self._dies:
            raise Died("out of memory")
        self.ready = {0: WarmedShape(0, 1, 0.0, 0.0)}

    def round(self, number: int, shape: int) -> Round:
        return Round(number, shape, 1, self._step * (1 + 0.001 * (number % 3)))

    def inspect(self, shape: int) -> None: ...

    def profile(self, shape: int) -> None: ...

    def end(self) -> None: ...

    def kill(self) -> None: ...
