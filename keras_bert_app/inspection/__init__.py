"""Pre-training examples as a trainer gets them, as text to read and as statistics."""
