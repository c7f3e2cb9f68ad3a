"""Delta Lake: the contract for tables, its backends, and every Delta statement of this package."""
