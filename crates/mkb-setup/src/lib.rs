//! The Python environment that workers run in: create, lock, verify, describe.
