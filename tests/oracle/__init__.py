"""Recorded cases of Kafka Streams, and their comparison with this engine: ``make oracle``."""
