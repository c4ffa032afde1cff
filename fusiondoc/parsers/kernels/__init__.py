"""Generated kernels: launches, dumps and figures that fusers print."""
