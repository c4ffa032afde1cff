"""A comparison as text, Markdown, JSON and a page."""
