"""A fusion group of a log as one stand-alone Python file, and that file made smaller."""
