"""Child processes and captures."""
