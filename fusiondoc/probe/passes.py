"""The passes: forward, and backward if requested, marked in the log and written to
the records; and for ``--verify`` each once more without fusion, on the same inputs.

Which outputs of a graph depend on random numbers: those differ from run to run by
design, and are held against eager ones by statistics.
"""

from __future__ import annotations

import copy
import re
import time
from typing import Any, Callable, Sequence

from . import OWN_FOLDER, Refused, UserError, folder_of, hint_of
from .log_and_records import LOG, Records, mark
from .models import signature
from .pass_inputs import (
    Shape,
    arguments_of,
    backward_from_ones,
    call,
    named_of,
    parameters_of,
    tensors_in,
)
from .reference_run import Reference, References, Start, judge
from .same_draws import RANDOM
from .same_results import (
    compare_rows,
    compare_statistics,
    cotangents,
    differentiate,
    random_state,
    relative,
    same_state,
    set_random_state,
    statistics,
    unfused,
)

_WRONG_INPUT = re.compile(
    r"Expected a value of type|expected at most|missing value for argument|Unknown keyword argument"
    r"|takes \d+ positional arguments? but|missing \d+ required positional"
)
"""Errors of TorchScript (function_schema_inl.h, pybind_utils.h) for arguments that
do not fit the schema."""


class Passes:
    """Runs ``model`` ``runs`` times on each shape, one shape after the other; with
    a ``verifier`` every pass is compared with an eager one."""

    def __init__(
        self,
        torch: Any,
        model: Any,
        shapes: Sequence[Shape],
        runs: int,
        backward: bool,
        records: Records,
        verifier: Verifier | None = None,
    ) -> None:
        self._torch = torch
        self._model = model
        self._shapes = shapes
        self._runs = runs
        self._backward = backward
        self._records = records
        self._verifier = verifier
        self._total = runs * len(shapes)
        self._redirection_noted = False
        self._away: dict[str, str] = {}

    def run(self) -> None:
        """Raises UserError (the model raised) or Refused (unfit inputs, nothing to
        differentiate)."""
        index = 0
        for number, shape in enumerate(self._shapes):
            for _ in range(self._runs):
                index += 1
                self._one(index, number, shape)
        mark("end")

    def _one(self, index: int, number: int, shape: Shape) -> None:
        torch = self._torch
        arguments = arguments_of(shape)
        tensors = tensors_in(torch, arguments)
        # Without --backward a model runs as in inference unless an input needs
        # grad; parameters always do.
        wants_grad = self._backward or any(
            tensor.requires_grad for tensor in tensors
        )
        verifier = self._verifier
        comparison = None
        if verifier is not None:
            comparison = verifier.start(number, arguments)
        try:
            outputs, gradients = self._passed(
                index, number, arguments, tensors, wants_grad
            )
        except UserError:
            if comparison is not None:
                comparison.try_without_fuser(index, wants_grad, self._backward)
            raise
        if comparison is not None:
            comparison.finish(
                index, Results(outputs, gradients), wants_grad, self._backward
            )

    def _passed(
        self,
        index: int,
        number: int,
        arguments: tuple[Any, ...],
        tensors: list[Any],
        wants_grad: bool,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Run forward and, if requested, backward; return the outputs, and for
        ``--verify`` the gradients by name."""
        torch, verifier = self._torch, self._verifier
        with torch.enable_grad() if wants_grad else torch.no_grad():
            output = self._timed(
                index, number, "forward", lambda: self._forward(arguments)
            )
        outputs = tensors_in(torch, output)
        gradients: dict[str, Any] = {}
        if self._backward:
            if not any(output.requires_grad for output in outputs):
                raise Refused(
                    "backward",
                    "--backward: no output of the model requires grad",
                    "Make an input require grad (--input 'float32[8,128]:grad', or requires_grad=True), "
                    "or use a module with parameters.",
                )
            self._timed(
                index, number, "backward", lambda: self._differentiate(outputs)
            )
            if verifier is not None:
                gradients = verifier.gradients(self._model, arguments)
            for tensor in tensors + parameters_of(self._model):
                tensor.grad = None
        return outputs, gradients

    def _timed(
        self, index: int, number: int, phase: str, work: Callable[[], Any]
    ) -> Any:
        mark("iteration %d/%d %s inputs %d" % (index, self._total, phase, number))
        self._note_redirected(LOG.away())
        with LOG.in_place(), LOG.recorded_when_put_back(self._records.write):
            began = time.perf_counter()
            result = work()
            if self._torch.cuda.is_initialized():
                self._torch.cuda.synchronize()
            turned = LOG.away()
        if turned and turned != self._away:
            # Redirected in the pass itself, or with nothing left to restore: a part
            # of the log is missing.
            self._away = turned
            self._records.write("redirected", **turned)
        self._records.write(
            "iteration",
            index=index,
            runs=self._total,
            phase=phase,
            inputs=number,
            seconds=round(time.perf_counter() - began, 6),
        )
        return result

    def _note_redirected(self, away: dict[str, str]) -> None:
        """Note once that the program's own descriptors do not lead to the log."""
        if away and not self._redirection_noted and LOG.descriptor >= 0:
            self._redirection_noted = True
            ways = " and ".join("%s %s" % pair for pair in sorted(away.items()))
            text = (
                "the program's %s; during the passes both go to the log all the same"
                % ways
            )
            self._records.note(text)

    def _forward(self, arguments: tuple[Any, ...]) -> Any:
        try:
            return call(self._model, arguments)
        except Exception as error:
            text = str(error)
            inside = "TorchScript interpreter" in text or self._in_users_code(error)
            if _WRONG_INPUT.search(text) and not inside:
                declared = signature(self._model)
                types = [_described(self._torch, value) for value in arguments]
                for name, value in named_of(arguments).items():
                    types.append("%s=%s" % (name, _described(self._torch, value)))
                given = ", ".join(types)
                raise Refused(
                    "inputs",
                    "the inputs do not fit the model: %s\ngiven: (%s)"
                    % (text.split("\n")[0], given),
                    hint_of(text)
                    or (
                        "The model is declared as %s." % declared
                        if declared
                        else None
                    ),
                ) from None
            raise UserError("forward") from error

    def _in_users_code(self, error: BaseException) -> bool:
        """True if it was raised inside a function that the program called, with
        arguments of its own."""
        trace = error.__traceback__
        libraries = (folder_of(self._torch), OWN_FOLDER, "<")
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith(libraries):
                return True
            trace = trace.tb_next
        return False

    def _differentiate(self, outputs: list[Any]) -> None:
        torch = self._torch
        try:
            if self._verifier is not None:
                self._verifier.differentiate(outputs)
                return
            backward_from_ones(torch, outputs)
        except Exception as error:
            raise UserError("backward") from error


def _described(torch: Any, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "%s%s" % (str(value.dtype).replace("torch.", ""), list(value.shape))
    return type(value).__name__


# -- each pass once more without fusion --------------------------------------------------------------------

_DRAWS = 3
"""Number of eager runs with other random numbers, to see how much statistics vary
by themselves."""


class Verifier:
    """Compares every pass of ``scripted`` with the same pass of ``twin``."""

    def __init__(
        self, torch: Any, scripted: Any, twin: Any, records: Records
    ) -> None:
        self._torch = torch
        self._scripted = scripted
        self._twin = twin
        self._records = records
        self._flow = random_flow(torch, scripted)
        self.references = References(torch, twin)

    def start(self, number: int, arguments: tuple[Any, ...]) -> PassComparison:
        """To be called before the fused pass: inputs may be changed in it, random
        numbers will be drawn."""
        torch = self._torch
        self._copy_buffers()
        named = getattr(self._twin, "named_buffers", dict)
        buffers = {}
        for name, buffer in dict(named()).items():
            buffers[name] = buffer.detach().clone()
        return PassComparison(
            torch,
            self,
            Start(number, copy.deepcopy(arguments), buffers, random_state(torch)),
        )

    def differentiate(self, outputs: list[Any]) -> None:
        """Run the backward pass from every output that requires grad."""
        differentiate(self._torch, outputs)

    def gradients(self, model: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the gradients by name, those of the arguments first, and clear
        them."""
        torch = self._torch
        found: dict[str, Any] = {}
        for name, tensor in [
            *_named(torch, self._names(), arguments),
            *_parameters(model),
        ]:
            if tensor.requires_grad and name not in found:
                found[name] = tensor.grad
                tensor.grad = None
        return found

    def _names(self) -> list[str]:
        schema = getattr(
            getattr(self._scripted, "forward", self._scripted), "schema", None
        )
        if schema is None:
            return []
        # The first argument of a method is the module itself.
        first = 1 if isinstance(self._scripted, self._torch.jit.ScriptModule) else 0
        return [argument.name for argument in schema.arguments[first:]]

    def _copy_buffers(self) -> None:
        """Copy the buffers (running means ...) of the model under test to the twin
        before each pass."""
        torch = self._torch
        if not (
            hasattr(self._twin, "named_buffers")
            and hasattr(self._scripted, "named_buffers")
        ):
            return
        own = dict(self._twin.named_buffers())
        with torch.no_grad():
            for name, buffer in self._scripted.named_buffers():
                if name in own and own[name].shape == buffer.shape:
                    own[name].copy_(buffer)

    def eager(
        self, arguments: tuple[Any, ...], wants_grad: bool, backward: bool
    ) -> Results:
        """Run one eager pass."""
        try:
            return self.unfused_pass(self._twin, arguments, wants_grad, backward)
        except Exception as error:
            raise UserError("verify") from error

    def unfused_pass(
        self,
        model: Any,
        arguments: tuple[Any, ...],
        wants_grad: bool,
        backward: bool,
        starts: Sequence[Any] | None = None,
    ) -> Results:
        """Run a pass of the twin or of a copy of it; ``starts`` as for
        ``differentiate``."""
        torch = self._torch
        with unfused(torch), torch.enable_grad() if wants_grad else torch.no_grad():
            outputs = tensors_in(torch, call(model, arguments))
            if backward:
                differentiate(torch, outputs, starts)
        return Results(
            outputs, self.gradients(model, arguments) if backward else {}
        )

    def coarsest(self, arguments: tuple[Any, ...]) -> float:
        """The tolerance for the least precise type among inputs and parameters."""
        torch = self._torch
        tensors = tensors_in(torch, arguments) + [
            parameter for _, parameter in _parameters(self._scripted)
        ]
        return max(
            [relative(torch, tensor.dtype) for tensor in tensors], default=0.0
        )

    def random_ops(self, drew: bool) -> list[str]:
        """The random operators, if random numbers were drawn at all."""
        if drew and self._flow is not None:
            return self._flow.ops
        return []

    def is_random(self, drew: bool, output: int | None) -> bool:
        """True if an output (None: a gradient) may depend on random numbers."""
        hangs = None
        if self._flow is not None and self._flow.ops:
            hangs = self._flow.outputs
        if not drew or hangs is None:
            return drew
        if output is None:
            return any(hangs)
        return hangs[output : output + 1] != [False]

    def write(self, record: str = "verify", **fields: Any) -> None:
        self._records.write(record, **fields)


class Results:
    """The results of a pass: output tensors, and gradients by name."""

    def __init__(self, outputs: list[Any], gradients: dict[str, Any]) -> None:
        self.outputs = outputs
        self.gradients = gradients

    def named(self) -> list[tuple[str, str, int | None, Any]]:
        """(phase, what, number of the output, tensor)"""
        rows: list[tuple[str, str, int | None, Any]] = []
        for i, output in enumerate(self.outputs):
            rows.append(("forward", "output %d" % i, i, output))
        for name, gradient in self.gradients.items():
            rows.append(("backward", "grad " + name, None, gradient))
        return rows


class PassComparison:
    """The comparison of one pass: created before the fused run, ``finish`` after
    it."""

    def __init__(self, torch: Any, verifier: Verifier, start: Start) -> None:
        self._torch = torch
        self._verifier = verifier
        self._start = start

    def finish(
        self, index: int, fused: Results, wants_grad: bool, backward: bool
    ) -> None:
        """Run the eager twin from the same state, compare, and write the record."""
        torch, verifier, start = self._torch, self._verifier, self._start
        after = random_state(torch)
        set_random_state(torch, start.state)
        arguments = copy.deepcopy(start.arguments)
        tolerance = verifier.coarsest(arguments)
        began = time.perf_counter()
        eager = verifier.eager(arguments, wants_grad, backward)
        drew = not same_state(torch, start.state, random_state(torch))
        seconds = time.perf_counter() - began
        with torch.no_grad():
            rows = self._rows(
                fused, eager, tolerance, drew, seconds, wants_grad, backward
            )
        set_random_state(torch, after)
        ops = verifier.random_ops(drew)
        verifier.write(
            iteration=index, inputs=start.number, random=ops, results=rows
        )

    def try_without_fuser(
        self, index: int, wants_grad: bool, backward: bool
    ) -> None:
        """After an error of the fused pass: record whether the eager pass ends
        without one. A device that an illegal access left unusable fails here too,
        so only a pass that succeeds proves something."""
        try:
            set_random_state(self._torch, self._start.state)
            self._verifier.eager(
                copy.deepcopy(self._start.arguments), wants_grad, backward
            )
            passed = True
        except Exception:
            passed = False
        self._verifier.write(
            "eager_pass", iteration=index, inputs=self._start.number, passed=passed
        )

    def _rows(
        self,
        fused: Results,
        eager: Results,
        tolerance: float,
        drew: bool,
        seconds: float,
        wants_grad: bool,
        backward: bool,
    ) -> list[dict[str, Any]]:
        torch, verifier = self._torch, self._verifier
        outputs = {what: output for _, what, output, _ in fused.named()}
        draws: list[dict[str, Any]] = []
        references: list[Reference] = []
        starts: list[Any] = []

        def wider_pass(model: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
            results = verifier.unfused_pass(
                model, arguments, wants_grad, backward, starts
            )
            return {what: tensor for _, what, _, tensor in results.named()}

        def again(
            what: str, tensor: Any, other: Any, row: dict[str, Any], largest: float
        ) -> dict[str, Any]:
            if not verifier.is_random(drew, outputs[what]):
                if tensor.shape != other.shape:
                    return row
                if not references:
                    starts.extend(
                        cotangents(torch, eager.outputs) if backward else ()
                    )
                    references.append(
                        verifier.references.of(self._start, wider_pass, seconds)
                    )
                return judge(
                    torch, row, what, (tensor, other), references[0], largest
                )
            row = compare_statistics(torch, tensor, other)
            if row["same"]:
                return row
            if not draws:
                draws.extend(self._draw(wants_grad, backward))
            seen = []
            for draw in draws:
                if draw.get(what) is not None:
                    seen.append(statistics(torch, draw[what]))
            return compare_statistics(torch, tensor, other, seen)

        ours, theirs = (
            [(p, what, tensor) for p, what, _, tensor in of.named()]
            for of in (fused, eager)
        )
        return compare_rows(torch, ours, theirs, tolerance, again)

    def _draw(self, wants_grad: bool, backward: bool) -> list[dict[str, Any]]:
        """Results of eager passes with other random numbers."""
        found = []
        for _ in range(_DRAWS):
            arguments = copy.deepcopy(self._start.arguments)
            results = self._verifier.eager(arguments, wants_grad, backward)
            found.append({what: tensor for _, what, _, tensor in results.named()})
        return found


def _parameters(model: Any) -> list[tuple[str, Any]]:
    """The parameters by name; those of a module wrapped by torch.compile have the
    names of that module."""
    model = getattr(model, "_orig_mod", model)
    named = getattr(model, "named_parameters", None)
    if callable(named):
        return list(named())
    return []


def _named(
    torch: Any, names: list[str], arguments: tuple[Any, ...]
) -> list[tuple[str, Any]]:
    found = []
    given = []
    for i, value in enumerate(arguments):
        given.append((names[i] if i < len(names) else "input %d" % i, value))
    for name, value in given + list(named_of(arguments).items()):
        tensors = tensors_in(torch, value)
        single = isinstance(value, torch.Tensor)
        for k, tensor in enumerate(tensors):
            found.append((name if single else "%s[%d]" % (name, k), tensor))
    return found


class RandomFlow:
    """Which values of a TorchScript graph depend on random operators.

    ``ops``: their names, in order of the graph, each once. ``outputs``: for each
    tensor or other value that the graph returns whether it depends on one; None
    where the graph returns a list or a dictionary, whose elements it does not name.
    """

    def __init__(self, graph: Any) -> None:
        self.ops: list[str] = []
        self._tainted: set[str] = set()
        before = -1
        # In-place operators taint values that were made before them: repeat until
        # nothing new is found.
        while before != len(self._tainted):
            before = len(self._tainted)
            self._block(graph)
        self.outputs = self._outputs(graph)

    def _block(self, block: Any) -> bool:
        """Mark the values that depend on random operators in a block; return
        whether the block has a random operator."""
        found = False
        for node in block.nodes():
            kind = str(node.kind())
            plain = kind[:-1] if kind.endswith("_") else kind
            own = plain in RANDOM
            if own and plain not in self.ops:
                self.ops.append(plain)
            for inner in node.blocks():
                if self._block(inner):
                    own = True
            inputs = list(node.inputs())
            if not own and not any(
                value.debugName() in self._tainted for value in inputs
            ):
                continue
            found = True
            self._tainted.update(value.debugName() for value in node.outputs())
            if kind.endswith("_") and inputs:
                self._tainted.add(inputs[0].debugName())
        return found

    def _outputs(self, graph: Any) -> list[bool] | None:
        values = list(graph.outputs())
        while (
            len(values) == 1 and values[0].node().kind() == "prim::TupleConstruct"
        ):
            values = list(values[0].node().inputs())
        if any(
            value.type().kind() in ("ListType", "DictType", "TupleType")
            for value in values
        ):
            return None
        outputs = []
        for value in values:
            if _is_tensor(value):
                outputs.append(value.debugName() in self._tainted)
        return outputs


def _is_tensor(value: Any) -> bool:
    kind = str(value.type().kind())
    return kind == "TensorType" or (
        kind == "OptionalType" and "Tensor" in str(value.type())
    )


def random_flow(torch: Any, scripted: Any) -> RandomFlow | None:
    """The random flow of a scripted model; None if this torch cannot show its
    graph."""
    try:
        graph = scripted.inlined_graph.copy()
        # Remove branches that constant arguments decide: dropout(inplace=False)
        # holds an in-place one.
        torch._C._jit_pass_constant_propagation(graph)
        return RandomFlow(graph)
    except (AttributeError, RuntimeError):
        return None
