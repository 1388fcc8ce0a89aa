"""Output for people on a terminal: text, progress lines and durations."""
