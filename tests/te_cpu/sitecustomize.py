"""Transformer Engine's real planner without a GPU, for tests: this folder and a
wheel on PYTHONPATH.

The compiled extension and packages that only its kernels need are stand-ins, and
running the operators is left out (the input goes through as it is): what is seen is
the plan of the real package, never a run.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import types

os.environ["NVTE_TORCH_COMPILE"] = "0"
os.environ["NVTE_PROJECT_BUILDING"] = (
    "1"  # transformer_engine/common/__init__.py then loads no library
)
STANDINS = (
    "transformer_engine_torch",
    "triton",
    "pydantic",
    "einops",
    "onnxscript",
    "onnx",
    "onnxruntime",
    "cudnn",
    "flash_attn",
    "nvdlfw_inspect",
    "packaging_",
    "pynvml",
    "flashinfer",
    "pydantic_core",
    "jax",
    "fla",
)


class _Members(dict):
    """Members of an enum of the extension: those of the Python enum that mirrors
    it, compared with it."""

    def __init__(self, name):
        self._name = name

    def __iter__(self):
        mirrors = sys._getframe(1).f_globals
        if self._name == "NVTE_Fused_Attn_Backend":
            return iter(["NVTE_" + one.name for one in mirrors["FusedAttnBackend"]])
        return iter([one.name for one in mirrors[self._name]])


class _Kind(type):
    """A class that has every attribute and takes part in every expression of an
    import."""

    def __getattr__(cls, name):
        if name == "__members__":
            return _Members(cls.__name__)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _Kind(name, (Anything,), {})
        setattr(cls, name, made)
        return made

    def __call__(cls, *args, **kwargs):
        if (
            len(args) == 1
            and not kwargs
            and callable(args[0])
            and not isinstance(args[0], _Kind)
        ):
            return args[0]  # a decorator
        return type.__call__(cls)

    def __iter__(cls):
        return iter(())

    def __int__(cls):
        return 0

    __index__ = __int__

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, item):
        return cls

    def __len__(cls):
        return 0

    def __lt__(cls, other):
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(cls):
        return True


class Anything(metaclass=_Kind):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Kind(name, (Anything,), {})

    def __call__(self, *args, **kwargs):
        if (
            len(args) == 1
            and not kwargs
            and callable(args[0])
            and not isinstance(args[0], _Kind)
        ):
            return args[0]
        return self

    def __int__(self):
        return 0

    __index__ = __int__

    def __getitem__(self, item):
        return self

    def __iter__(self):
        return iter(())


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _Kind(name, (Anything,), {})
        setattr(self, name, made)
        return made


class _OnAnyDevice(importlib.machinery.SourceFileLoader):
    """1.13 refuses parameters that are not on a GPU."""

    def get_data(self, path):
        data = super().get_data(path)
        return (
            data
            if path.endswith(".pyc")
            else data.replace(b'if device.type != "cuda":', b"if False:")
        )

    def get_code(self, fullname):
        return compile(
            self.get_data(self.path), self.path, "exec", dont_inherit=True
        )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STANDINS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if (
            name == "transformer_engine.pytorch"
        ):  # its __init__ loads the extension and every kernel
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [
                folder + "/pytorch" for folder in path or ()
            ]
            return spec
        if name.startswith("transformer_engine.pytorch.ops.basic."):
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = _OnAnyDevice(name, spec.origin)
            return spec
        return None

    def create_module(self, spec):
        if spec.name == "transformer_engine.pytorch":
            return None
        module = _Module(spec.name)
        module.__version__ = "99.0"
        if spec.name == "transformer_engine_torch":
            module.__all__ = ["FP8TensorMeta"]  # 1.13 takes it by a star import
        if spec.name == "pydantic.dataclasses":
            import dataclasses

            module.dataclass = dataclasses.dataclass
        return module

    def exec_module(self, module):
        if module.__name__ == "transformer_engine.pytorch":
            import importlib

            import torch

            version = tuple(
                int(part) for part in torch.__version__.split("+")[0].split(".")
            )
            module.torch_version = lambda: version
            importlib.import_module(
                "transformer_engine.pytorch.module"
            )  # in the order of the real __init__
            _run_nothing(
                importlib.import_module("transformer_engine.pytorch.ops.fuser")
            )
            _allow_recipes(importlib.import_module)


def _run_nothing(fuser):
    """The operators are planned and then not run: the input goes through, with
    gradients if asked for."""

    def through(input_, fuser_or_forward_ops, *rest):
        ops = getattr(fuser_or_forward_ops, "_basic_ops", None) or rest[1]
        extra = sum(op.num_extra_outputs for op in ops)
        out = input_ + sum(
            (p.float().sum() * 0 for op in ops for p in op.parameters()), 0.0
        )
        return (out, *[out * 1 for _ in range(extra)]) if extra else out

    function = fuser._OperationFuserAutogradFunction
    function.apply = staticmethod(through)
    function.forward = staticmethod(lambda ctx, *args: through(*args))


class _State:
    """Recipe state without tensors on a GPU: it only has as many quantizers as
    asked for."""

    def __init__(self, recipe, count):
        import torch

        self.recipe = recipe
        self.amax_history = torch.zeros(
            getattr(recipe, "amax_history_len", 1), count
        )
        self._count = count

    def make_quantizers(self):
        return [Anything() for _ in range(self._count)]


def _allow_recipes(load):
    import torch

    torch.cuda.is_current_stream_capturing = lambda: False
    for module in list(sys.modules.values()):
        if str(getattr(module, "__name__", "")).startswith(
            "transformer_engine."
        ) and "canonicalize_device" in vars(module):
            module.canonicalize_device = lambda device: torch.device("cpu")
    for name in ("quantization", "fp8"):
        try:
            module = load("transformer_engine.pytorch." + name)
        except ImportError:
            continue
        for member in dir(module):
            if member.startswith("check_") and member.endswith("_support"):
                setattr(module, member, lambda *args: (True, ""))
        manager = module.FP8GlobalStateManager
        manager.add_fp8_tensors_to_global_buffer = classmethod(
            lambda cls, *args, **how: None
        )
        if hasattr(module, "RecipeState"):
            module.RecipeState.create = staticmethod(
                lambda recipe, **how: _State(recipe, how.get("num_quantizers", 1))
            )


sys.meta_path.insert(0, _Finder())
