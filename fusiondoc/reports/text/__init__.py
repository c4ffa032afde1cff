"""The terminal report, one file a section."""
