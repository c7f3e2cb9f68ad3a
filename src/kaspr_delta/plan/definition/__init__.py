"""The frozen plan: what will run, with nothing left to guess."""
