"""What changed between two reports. Imports the report model alone."""
