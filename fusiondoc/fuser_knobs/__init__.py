"""The catalogue of knobs, environment variables and dump options by torch version."""
