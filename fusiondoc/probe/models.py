"""Turning what the user has into TorchScript."""

from __future__ import annotations

from typing import Any

from .failures import Refused, UserError

MAKES_HINT = "If it makes the model, put model = %s() into a file and name that; or change the line above."

TRACE_HINT = "Change that line, or record the operators with --trace instead (control flow is then frozen)."


def to_torchscript(torch: Any, model: Any, example: Any, trace: bool, freeze: bool) -> Any:
    """The scripted (or traced) model; already scripted ones stay as they are.

    Args:
        example: gives the arguments to trace with; called only for tracing.
        trace: ``torch.jit.trace`` instead of ``torch.jit.script``.
        freeze: for oneDNN Graph, which sees weights only in frozen modules; left out for a module in training
            mode, which cannot be frozen.
    """
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        scripted = model
    elif trace:
        scripted = _trace(torch, model, example())
    else:
        scripted = _script(torch, model)
    if freeze and isinstance(scripted, torch.jit.ScriptModule) and not scripted.training:
        try:
            return torch.jit.freeze(scripted)
        except RuntimeError as error:
            raise UserError("script") from error
    return scripted


def _script(torch: Any, model: Any) -> Any:
    try:
        return torch.jit.script(model)
    except Exception as error:
        # NotSupportedError, FrontendError, RuntimeError, OSError (no source): the same to the user.
        raise UserError("script", _script_hint(model)) from error


def _script_hint(model: Any) -> str:
    """A function without arguments that cannot be scripted is most likely one that builds the model."""
    code = getattr(model, "__code__", None)
    if code is not None and not code.co_argcount and code.co_name.isidentifier():
        return MAKES_HINT % str(code.co_name)
    return TRACE_HINT


def _trace(torch: Any, model: Any, example: tuple[Any, ...]) -> Any:
    try:
        # The check would run the model and a second graph through the executor: noise in the log.
        return torch.jit.trace(model, example, check_trace=False)
    except Exception as error:
        raise UserError("trace", "Tracing takes tensors only; wrap plain numbers in the function.") from error


def move(torch: Any, model: Any, device: Any) -> Any:
    """A module on ``device``; a function's tensors are its arguments, so it stays as it is."""
    if device is not None and isinstance(model, torch.nn.Module):
        return model.to(device)
    return model


def home(torch: Any, model: Any) -> Any:
    """Where inputs of ``--input`` belong: with the first parameter, else on a GPU, else on the CPU."""
    if isinstance(model, torch.nn.Module):
        for parameter in list(model.parameters()) + list(model.buffers()):
            return parameter.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def signature(model: Any) -> str | None:
    """The declaration of a scripted model, such as ``forward(Tensor x) -> Tensor``; None if it has none."""
    schema = getattr(getattr(model, "forward", model), "schema", None)
    if schema is None:
        return None
    arguments = ["%s %s" % (one.type, one.name) for one in schema.arguments if one.name != "self"]
    return "%s(%s)" % (schema.name, ", ".join(arguments))


def device_of(torch: Any, name: str | None) -> Any:
    """``torch.device`` of ``--device``; Refused (status 4) for a GPU that this torch does not see."""
    if name is None:
        return None
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Refused("device", "no device '%s': %s" % (name, str(error).split("\n")[0])) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Refused(
            "device",
            "torch %s sees no CUDA device here" % torch.__version__,
            "Use --device cpu, or a machine with a GPU and a CUDA build of torch.",
            4,
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise Refused(
            "device", "there is no %s: torch sees %d" % (device, torch.cuda.device_count()), None, 4
        )
    return device
