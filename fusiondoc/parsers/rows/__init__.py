"""Facts of a log to the rows of a report: groups, operators that are not fused, kernels."""
