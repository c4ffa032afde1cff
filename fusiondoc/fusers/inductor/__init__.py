"""Inductor, the default backend of torch.compile: a variant of benches; its groups are not read."""

VARIANT = "inductor"
