"""The engine: one batch for every stateful resource, one log each, folds."""
