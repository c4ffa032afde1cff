"""``python -m fusiondoc``: the same as the console script ``fusiondoc``."""

from fusiondoc.cli.main import main

main()
