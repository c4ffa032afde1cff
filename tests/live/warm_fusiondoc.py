"""``fusiondoc ARGS`` as a process whose children are forks of the server at SOCKET
(``tests/warm_torch.py``).

python warm_fusiondoc.py SOCKET ARGS
"""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    sys.path[:1] = [str(TESTS.parent), str(TESTS)]
    import warm_torch

    warm_torch.use(sys.argv.pop(1))
    from fusiondoc.cli import main

    main()
