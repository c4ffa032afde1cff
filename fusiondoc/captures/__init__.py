"""Captures and their records: what a run left in its folder; read anywhere, without torch."""
