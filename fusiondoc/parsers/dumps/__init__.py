"""What PYTORCH_NVFUSER_DUMP prints besides figures: which lines are a dump, whose it is, what it says.

``kinds`` knows the shape of each dump, ``reader`` takes its lines, ``place`` finds the kernel it belongs to,
``keep`` holds the texts within a budget. ``segmentation`` and ``segments`` read how a group was cut up.
"""
