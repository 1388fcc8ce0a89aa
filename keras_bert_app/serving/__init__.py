"""A local server with TensorFlow Serving's REST contract; it needs SavedModels alone, no code that made them."""
