"""Generated kernels: launches, dumps and figures of nvFuser, NNC and oneDNN Graph."""
