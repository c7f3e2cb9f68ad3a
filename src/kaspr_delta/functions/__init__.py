"""The Python in manifests: compiled, found, called."""
