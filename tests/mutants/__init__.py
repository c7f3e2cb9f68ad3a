"""Seeded faults, each with the tests that have to find it: ``python -m tests.mutants``."""
