"""Delta Lake: namespaces, layouts, and every statement."""
