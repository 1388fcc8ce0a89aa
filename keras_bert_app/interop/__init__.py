"""Reads and writes the weights of other libraries' models."""
