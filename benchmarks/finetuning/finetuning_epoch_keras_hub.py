"""KerasHub's fine-tuning, for finetuning_epoch. reference_answers runs this script in the environment of this project.

The script trains BertTextClassifier with fit. KerasHub's preprocessor pads every text to the same length. The
preprocessing runs once, in the first round, which does not count.
"""

import json

import epoch_answers
import keras
import keras_hub
import tensorflow as tf

PACKAGES = ("keras-hub", "tensorflow", "keras")


def make(request):
    keras.utils.set_random_seed(request["seed"])
    with open(request["texts_file"], encoding="utf-8") as file:
        texts = json.load(file)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        request["directory"], sequence_length=request["max_seq_length"]
    )
    model = keras_hub.models.BertTextClassifier.from_preset(
        request["directory"],
        preprocessor=None,
        dtype={"float32": "float32", "bfloat16": "mixed_bfloat16"}[request["precision"]],
    )
    optimizer = keras.optimizers.AdamW(request["learning_rate"], weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=request["compiled"] == "step",
    )

    def rows(*columns):
        strings = tf.data.Dataset.from_tensor_slices(columns).batch(256)
        return strings.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE).unbatch().cache()

    batches = (
        rows(*map(list, zip(*texts["train"], strict=True)))
        .shuffle(len(texts["train"]), seed=request["seed"])
        .batch(request["batch_size"])
        .prefetch(2)
    )
    dev = rows([text for text, _ in texts["dev"]]).batch(request["batch_size"])
    return lambda: model.fit(batches, verbose=0), lambda: model.predict(dev, verbose=0)


answer = epoch_answers.answers_of_epochs(make)
