"""The use cases under the commands: load, run, run again, time, try; no click."""
