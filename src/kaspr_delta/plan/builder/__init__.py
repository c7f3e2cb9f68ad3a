"""From loaded manifests to frozen plans, with findings."""
