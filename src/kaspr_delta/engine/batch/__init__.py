"""The batch that every stateful resource runs: touched, pinned, recompute, difference, commit, fold."""
