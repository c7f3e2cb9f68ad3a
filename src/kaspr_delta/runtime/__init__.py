"""What surrounds the engine: the Spark session, the registry of manifests, the runner."""
