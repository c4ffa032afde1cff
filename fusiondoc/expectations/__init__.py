"""Expectations on a report: read from YAML, matched, explained where they are broken, and written."""
