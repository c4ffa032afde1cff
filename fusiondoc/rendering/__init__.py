"""Blocks and cells to text: the terminal, Markdown and pages. Nothing here knows a
report."""
