"""The engine: one batch for every resource, one log each, folds."""
