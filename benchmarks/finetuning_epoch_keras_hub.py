"""KerasHub's fine-tuning, asked by benchmarks.finetuning_epoch; not run by hand.

BertTextClassifier and fit on strings: its preprocessor pads every text to the same length.
"""

import peer_answers  # first of all
import json

import keras
import keras_hub
import tensorflow as tf


def make(request):
    keras.utils.set_random_seed(request["seed"])
    with open(request["texts_file"], encoding="utf-8") as file:
        texts = json.load(file)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        request["directory"], sequence_length=request["max_seq_length"])
    model = keras_hub.models.BertTextClassifier.from_preset(
        request["directory"], preprocessor=preprocessor,
        dtype={"float32": "float32", "bfloat16": "mixed_bfloat16"}[request["precision"]])
    optimizer = keras.optimizers.AdamW(request["learning_rate"], weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  jit_compile=request["compiled"] == "step")
    rows = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*texts["train"]))))
    batches = rows.shuffle(len(texts["train"]), seed=request["seed"]).batch(request["batch_size"]).prefetch(2)
    dev = tf.data.Dataset.from_tensor_slices([text for text, _ in texts["dev"]]).batch(request["batch_size"])
    return lambda: model.fit(batches, verbose=0), lambda: model.predict(dev, verbose=0)


if __name__ == "__main__":
    peer_answers.serve_epochs(make, ("keras-hub", "tensorflow", "keras"))
