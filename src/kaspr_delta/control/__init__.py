"""The registry of applied manifests, events, status, lag and dead letters. Nothing here uses Spark."""
