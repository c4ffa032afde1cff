"""The rules: one function a finding, by family of codes."""
