"""Owns the module path `cutlass.base_dsl`."""
