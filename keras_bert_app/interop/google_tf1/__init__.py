"""Reads and writes the TensorFlow 1 checkpoints of google-research/bert."""
