"""Everything around the engine: the Spark session, the application's tables, applying manifests, the runner."""
