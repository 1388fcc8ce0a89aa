"""A LiteRT model (TensorFlow Lite) in memory, run on this machine's CPU by XNNPACK."""

import os
import threading
import warnings

from keras_bert_app.terminal import screen

MODEL_FILE = "model.tflite"  # beside the saved_model.pb of an export


class LiteRTModel:
    """A function of a LiteRT model's one signature. Threads may share it: calls go one after the other.

    On a CPU it is faster than the SavedModel (BUILD.md, "Serving"): XNNPACK arranges the weights for its products once,
    TensorFlow in every call.

    Args:
        model: bytes of a .tflite file. num_threads: of each call; 0 for as many as this process may use.
    """

    def __init__(self, model, num_threads=0):
        import tensorflow as tf

        with warnings.catch_warnings(), screen.hidden_chatter():
            # It is to move to a package of its own; TensorFlow's is the same code.
            warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
            interpreter = tf.lite.Interpreter(
                model_content=model, num_threads=num_threads or len(os.sched_getaffinity(0))
            )
            interpreter.allocate_tensors()  # when XNNPACK comes, and says so
        self._run, self._lock = interpreter.get_signature_runner(), threading.Lock()

    def __call__(self, **inputs):
        """dict output -> array, from arrays by the signature's names; of any batch size and length."""
        with self._lock:
            return self._run(**inputs)
