"""The foreign-key join of KIP-213: its hops (``hops``), its extractor, its subscriptions and its first load."""
