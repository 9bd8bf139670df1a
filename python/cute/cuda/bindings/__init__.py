"""Owns the package path `cuda.bindings`."""
