"""The catalogue of knobs, environment variables and dump options by torch version, and checks against it.

``catalogue`` looks entries up, ``checks`` refuses what a torch version does not know, ``log_levels`` reads
and merges the value of PYTORCH_JIT_LOG_LEVEL. Trying knobs on a live torch is the probe's part.
"""
