"""The classes of the frozen plan, in which nothing is left to guess."""
