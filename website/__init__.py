"""The documentation site: made from the Markdown of this repository, the models and the command line."""
