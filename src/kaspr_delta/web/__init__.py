"""HTTP: the web views of an application, its status and its metrics, without Spark."""
