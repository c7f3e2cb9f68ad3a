"""The events of a run for OpenTelemetry and OpenLineage, if environment variables of these standards say where to."""

from kaspr_delta.telemetry.observed import observed

__all__ = ["observed"]
