"""Configurations as dataclasses, without TensorFlow."""
