"""Manifests resolved into one frozen plan per application."""
