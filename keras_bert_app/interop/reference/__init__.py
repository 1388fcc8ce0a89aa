"""Asks reference implementations, each in a process and an environment of its own."""
