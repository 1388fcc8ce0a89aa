"""Pictures. matplotlib is imported here alone, and only when something is drawn."""
