"""The probes of ``kaspr-delta doctor``: what the engine relies on, tried on throw-away tables and files."""
