"""Bytes to lines: files, compression, colours, timestamps and the process that a
line is of."""
