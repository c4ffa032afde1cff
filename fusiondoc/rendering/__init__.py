"""Renders blocks and cells as text: for the terminal, Markdown and pages. Nothing
here depends on reports."""
