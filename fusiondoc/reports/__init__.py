"""Report model -> text, JSON, ...; one file a format."""
