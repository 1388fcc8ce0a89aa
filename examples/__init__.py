"""Programs on the public API; README.md lists them."""

import os

import keras_bert_app  # noqa: F401  before TensorFlow starts, because it chooses TensorFlow's matrix products

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
