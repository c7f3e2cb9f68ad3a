"""What will run: manifests resolved into one frozen plan per application."""
