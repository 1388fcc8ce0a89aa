"""Text files, their formats, and the sentences in them."""
