"""From bytes to lines: files, compression, colours, timestamps, and the process
that wrote each line."""
