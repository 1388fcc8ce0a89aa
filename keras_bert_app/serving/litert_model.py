"""LiteRT models (TensorFlow Lite) in memory; XNNPACK runs them on this machine's CPU."""

import threading
import warnings

from keras_bert_app.errors import UserError, first_line
from keras_bert_app.terminal import screen
from pipelines.processors import num_cores

MODEL_FILE = "model.tflite"  # in the directory of an export's saved_model.pb


class LiteRTModel:
    """A function that runs the one signature of a LiteRT model.

    Several threads may call the same object. Their calls run one after the other.

    On a CPU a LiteRT model is faster than the SavedModel (docs/results/serving.md). XNNPACK arranges the weights for
    its matrix products once. TensorFlow arranges them in every call.

    Args:
        model: bytes. The content of a .tflite file.
        num_threads: int. Threads of each call; 0 for as many as this process may use.

    Raises:
        UserError: the bytes are no LiteRT model with one signature.
    """

    def __init__(self, model: bytes, num_threads: int = 0):
        import tensorflow as tf

        try:
            with warnings.catch_warnings(), screen.hidden_chatter():
                # TensorFlow warns that the interpreter will move to another package. The code there is the same.
                warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
                interpreter = tf.lite.Interpreter(model_content=model, num_threads=num_threads or num_cores())
                interpreter.allocate_tensors()  # XNNPACK prints a message here
            self._run, self._lock = interpreter.get_signature_runner(), threading.Lock()
        except (ValueError, RuntimeError, TypeError) as error:
            raise _refusal("cannot be loaded", error) from None

    def __call__(self, **inputs) -> dict:
        """Runs the model on a batch of any size and length.

        Args:
            **inputs: np.ndarray under each input name of the signature.

        Returns:
            dict from output name to np.ndarray.

        Raises:
            UserError: the model has other inputs, or fails.
        """
        try:
            with self._lock:
                return self._run(**inputs)
        except (ValueError, RuntimeError) as error:
            raise _refusal("fails", error) from None


def _refusal(what, error):
    reason = first_line(error)
    return UserError(f"{MODEL_FILE}: {what} as a LiteRT model ({reason}); export again with --litert")
