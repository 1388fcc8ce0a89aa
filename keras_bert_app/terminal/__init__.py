"""Output for people: streams, text in columns, progress lines and durations."""
