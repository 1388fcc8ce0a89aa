"""Pre-trains like a user of KerasHub, for quality_per_minute: BertMaskedLM, its preprocessor, and fit.

quality_per_minute starts this script with one argument, a JSON object. KerasHub's defaults (Adam at 5e-5) suit
fine-tuning. This script uses AdamW, clipping and learning rates as for pre-training.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from time_budget import time_budget_of


class _Clock(keras.callbacks.Callback):
    """Sets the learning rate by the clock, writes the log, and stops the training.

    Keras divides the loss by the number of all places for predictions, the unused places included. The log has the loss
    divided by share_used, which is the mean over the used places.
    """

    def __init__(self, budget, share_used):
        super().__init__()
        self.budget, self.share_used = budget, share_used

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = self.budget.rate()

    def on_train_batch_end(self, batch, logs=None):
        def mean_loss():
            self.model.reset_metrics()
            return float(logs["loss"]) / self.share_used

        self.budget.took_step(mean_loss)
        self.model.stop_training = self.budget.is_over()


def draw_weights(model, initializer_range):
    """Draws new initial weights.

    BertBackbone and BertMaskedLM have no argument for the standard deviation. Biases and LayerNorm's weights begin as
    constants, and this function keeps them.

    Args:
        model: keras.Model.
        initializer_range: float. Standard deviation of the new weights.
    """
    for variable in model.trainable_variables:
        if float(keras.ops.std(variable.value)) > 0.0:
            # Each initializer draws its own seed from the generator that set_random_seed seeded.
            variable.assign(keras.initializers.TruncatedNormal(stddev=initializer_range)(variable.shape))


def main(given):
    keras.utils.set_random_seed(given["seed"])
    keras.config.set_dtype_policy({"float32": "float32", "bfloat16": "mixed_bfloat16"}[given["precision"]])
    size, length = given["size"], given["max_seq_length"]
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        keras_hub.models.BertTokenizer(vocabulary=given["vocab_file"], lowercase=True, strip_accents=True),
        sequence_length=length,
        mask_selection_length=given["max_predictions_per_seq"],
    )
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=size["vocab_size"],
        num_layers=size["num_hidden_layers"],
        num_heads=size["num_attention_heads"],
        hidden_dim=size["hidden_size"],
        intermediate_dim=size["intermediate_size"],
        **({} if given["dropout"] is None else {"dropout": given["dropout"]}),
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor)
    if given["initializer_range"] is not None:
        draw_weights(model, given["initializer_range"])
    optimizer = keras.optimizers.AdamW(given["learning_rate"], weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    # For narrow models on a CPU, XLA is faster in float32 and slower in bfloat16 (benchmarks.step.training_step).
    model.compile(optimizer=optimizer, jit_compile=given["precision"] == "float32" and size["hidden_size"] < 512)
    passages = tf.data.TextLineDataset(given["passages"]).shuffle(1 << 17, seed=given["seed"]).repeat()
    passages = passages.batch(given["batch_size"])
    weights = [weights.numpy().astype(np.float32) for _, _, weights in passages.take(50).map(preprocessor)]
    share_used = float(np.mean(weights))
    budget = time_budget_of(given)
    model.fit(passages.prefetch(2), verbose=0, callbacks=[_Clock(budget, share_used)])
    model.save_to_preset(given["output_dir"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
