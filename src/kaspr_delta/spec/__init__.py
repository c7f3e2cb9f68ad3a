"""Manifests of ``kaspr.io/v1alpha1``: load and check them, and report every mistake with its location."""
