"""TorchScript: the frontend whose graphs the fusers of the registry take."""

from fusiondoc.fusers.frontend import Frontend

TORCHSCRIPT = Frontend("torchscript", "TorchScript")
