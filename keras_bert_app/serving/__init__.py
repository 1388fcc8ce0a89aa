"""A local server with TensorFlow Serving's REST contract.

It needs SavedModels only, not the code that made them.
"""
