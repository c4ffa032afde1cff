"""``python -m pytest`` as a file, which a fork of a process that has torch can
run."""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(sys.argv[1:]))
