"""Agents: a pipeline of functions over the records of topics or of a channel."""
