"""The fusers: name, title and kind of group (named as probe/fusers.py: it switches them on beside torch)."""

from __future__ import annotations

from fusiondoc.model.quick_dataclass import dataclass


@dataclass(frozen=True)
class Fuser:
    """A fuser. ``title`` is how a sentence names it: "nvFuser", "the legacy fuser"."""

    name: str
    """As options and reports have it: nvfuser, nnc, onednn, legacy."""
    title: str
    kind: str
    """``Group.kind`` of its fusion groups."""

    @property
    def node(self) -> str:
        """The kind of its node in a graph: ``prim::CudaFusionGroup``."""
        return f"prim::{self.kind}"


NVFUSER = Fuser("nvfuser", "nvFuser", "CudaFusionGroup")
NNC = Fuser("nnc", "NNC", "TensorExprGroup")
ONEDNN = Fuser("onednn", "oneDNN Graph", "oneDNNFusionGroup")
LEGACY = Fuser("legacy", "the legacy fuser", "FusionGroup")

FUSERS: dict[str, Fuser] = {fuser.name: fuser for fuser in (NVFUSER, NNC, ONEDNN, LEGACY)}
"""Every fuser by its name."""

FUSER_OF_KIND: dict[str, Fuser] = {fuser.kind: fuser for fuser in FUSERS.values()}
"""Kind of a fusion group -> its fuser."""

CHOICES = (*FUSERS, "none")
"""What can be asked for in one run: a fuser by name, or none at all."""


REQUESTS = ("auto", *CHOICES)
"""What ``--fuser`` takes; "auto" leaves the choice to what this torch has."""

TE = "te"
"""The operation fuser of Transformer Engine: a frontend with a fuser of its own."""

TE_KIND = "te.ops."
"""How ``Group.kind`` of its groups begins; the class of the fused operator follows."""


def is_te(name: str) -> bool:
    """Whether the kind of a group, or an operator, is Transformer Engine's."""
    return name.startswith(TE_KIND)


AOT = "aot"
"""AOTAutograd in front of TorchScript and its fusers."""

FRONTENDS = ("auto", "torchscript", AOT, TE)
"""What ``--frontend`` takes."""

RECIPES = ("none", "delayed", "current", "block", "mxfp8", "nvfp4")
"""What ``--recipe`` takes: recipes of Transformer Engine."""


def fuser_title(name: str) -> str:
    """The fuser as a sentence names it; another name, such as none, as it is."""
    if name == TE:
        return "the operation fuser of Transformer Engine"
    return FUSERS[name].title if name in FUSERS else name


def takers(effective: str | None, te: bool) -> str:
    """What could take an operator, as a sentence names it; ``te``: Transformer Engine was at work too."""
    if effective == TE:
        return "Transformer Engine"
    name = fuser_title(effective) if effective in FUSERS else "the fuser"
    return f"{name} and Transformer Engine" if te else name
