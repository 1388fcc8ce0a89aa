"""Asks reference implementations for answers. Each one runs in its own process and environment."""
