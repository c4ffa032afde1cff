"""A doctor for operator fusion in TorchScript. The command line is in :mod:`fusiondoc.cli`."""

from fusiondoc.version import __version__

__all__ = ["__version__"]
