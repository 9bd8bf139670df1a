"""Owns the package path `cuda`, by which CuTe DSL programs name streams; no driver stands behind
it."""
