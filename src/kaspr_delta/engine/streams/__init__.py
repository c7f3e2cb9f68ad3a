"""Records of topics and channels: sources, events, effects and stream time."""
