"""The catalogue of knobs, environment variables and dump options by torch version, and checks against it.

``catalogue`` looks entries up, ``checks`` refuses what a torch version does not know. Trying knobs on a
live torch is the probe's part.
"""
