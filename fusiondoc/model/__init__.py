"""The report model and the domain's types: frozen dataclasses."""
