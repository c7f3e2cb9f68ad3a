"""What the engine costs, measured on this machine: ``make bench``."""
