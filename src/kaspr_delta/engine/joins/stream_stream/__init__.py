"""The windowed join of two streams: each record with the records of the other stream inside its window."""
