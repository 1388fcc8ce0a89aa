"""The configurations of models and runs, as dataclasses. Nothing here loads TensorFlow."""
