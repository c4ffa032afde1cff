"""The changes of a program that ran, which can be run one after the other: a file
for each kind."""
