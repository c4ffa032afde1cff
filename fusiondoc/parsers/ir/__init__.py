"""The printed TorchScript IR."""
