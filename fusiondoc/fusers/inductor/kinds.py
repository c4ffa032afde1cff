"""Names in reports for Inductor's groups and calls."""

NAME = "inductor"

KIND = "Inductor"
"""How ``Group.kind`` of its groups begins; Triton, Cpp, Template, Foreach,
MixedOrder or Library follows, or nothing if the language is not in the log."""
