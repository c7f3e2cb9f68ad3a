"""The handles that `Application` returns: topics, channels, tables and join results."""
