"""Reads and writes the checkpoints of TensorFlow Model Garden."""
