"""What a trainer is fed: its examples to read, and counted."""
