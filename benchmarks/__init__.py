"""Benchmarks of the engine: its cost, measured on this machine by ``make bench``."""
