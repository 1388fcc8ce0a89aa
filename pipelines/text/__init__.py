"""Text files, their formats, and sentences."""
