"""The command line: one file a command, thin; results to stdout, progress and notes to stderr."""
