"""``python -m torch.distributed.run ARGUMENTS`` as a file, which a process of the
warm server can become."""

from torch.distributed.run import main

main()
