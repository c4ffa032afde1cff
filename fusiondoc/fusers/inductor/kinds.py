"""Names in reports of what Inductor made."""

NAME = "inductor"

KIND = "Inductor"
"""How ``Group.kind`` of its groups begins; Triton, Cpp, Template, Foreach,
MixedOrder or Library follows, or nothing where the log does not tell the
language."""
