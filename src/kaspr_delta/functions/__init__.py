"""Python functions in manifests: compile the source, find the entry point, call it."""
