"""What Kafka Streams did, recorded case by case, and whether this engine does the same: ``make oracle``."""
