"""The windowed join of two streams: each record with those of the other stream that are near it in time."""
