"""The changes of a program that ran, which can be run in turn: each kind in a
file."""
