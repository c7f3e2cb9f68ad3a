"""The batch that every resource runs: touched, pinned, recompute, difference, commit, fold."""
