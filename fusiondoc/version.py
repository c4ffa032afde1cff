"""The version of fusiondoc, alone in a file so that ``fusiondoc --version`` imports nothing else."""

__version__ = "0.1.0"
