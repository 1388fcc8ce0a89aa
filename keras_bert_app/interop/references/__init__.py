"""Scripts that run other implementations, each in an environment of its own; they import nothing of this project."""
