"""Our text-to-text model, for the benchmark of text-to-text speed.

reference_answers runs this script in the environment of this project. A training step is the one that `finetune` takes.
Decoding is the function that `export` traces, or the signature of its SavedModel. The work runs on the first GPU, or
on the CPU. A CPU decodes as `predict` does: each op of a small model runs on one thread, and the cores share the rows.
"""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import numpy as np
import speed_answers
import tensorflow as tf

from benchmarks.common.adam_settings import optimizer_settings
from benchmarks.text_to_text.speed_files import make_decoder
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.export import specs
from keras_bert_app.modeling.text_decoding import DecodingOptions
from keras_bert_app.modeling.text_to_text_model import TextToTextModel
from keras_bert_app.runs import threads
from keras_bert_app.tasks.objectives import TextToText
from keras_bert_app.tasks.transfer import trained_variables
from keras_bert_app.training import compilation, steps, strategies
from keras_bert_app.training.optimizers import choice

PACKAGES = ("tensorflow", "keras")
_STEPS_OF_A_LONG_RUN = 10_000  # --jit_compile=auto compiles nothing for a short run


def make(request):
    directory = request["directory"]
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = BertConfig.from_dict(json.load(file)).replace(
            hidden_dropout_prob=request["dropout"], attention_probs_dropout_prob=request["dropout"]
        )
    if request["work"] == "decoding":
        given = os.environ.pop("TF_NUM_INTRAOP_THREADS", "")
        threads.use_one_thread_per_op(config.hidden_size)
        if not tf.config.threading.get_intra_op_parallelism_threads():  # a large model keeps the benchmark's number
            os.environ["TF_NUM_INTRAOP_THREADS"] = given
    strategy = strategies.make_strategy("one_device")
    with np.load(os.path.join(directory, "batch.npz")) as arrays:
        batch = {name: tf.constant(arrays[name]) for name in arrays.files}
    with strategy.scope():
        model = TextToTextModel(config, make_decoder(), dtype=strategies.KERAS_POLICIES[request["precision"]])
        with np.load(os.path.join(directory, "ours.npz")) as arrays:
            for variable in model.weights:
                variable.assign(arrays[variable.path])
    facts = {"parameters": model.count_params(), "device": strategies.device_kind(strategy)}
    if request["work"] == "decoding":
        num_calls = int(os.environ["OMP_NUM_THREADS"]) if facts["device"] == "CPU" else 1
        return _decoding(request, model, batch, num_calls), facts
    call, compiled = _training(request, strategy, model, batch)
    return call, {**facts, "compiled": compiled}


def _training(request, strategy, model, batch):
    run = FinetuningConfig(
        task="translation",
        global_batch_size=batch["input_mask"].shape[0],
        max_seq_length=batch["input_mask"].shape[1],
        num_train_steps=_STEPS_OF_A_LONG_RUN,
        jit_compile=request["way"],
        label_smoothing=request["label_smoothing"],
        **optimizer_settings(
            **{name: request[name] for name in ("precision", "learning_rate", "beta_2", "epsilon", "weight_decay")}
        ),
    ).resolved(_STEPS_OF_A_LONG_RUN)
    run = strategies.resolved(run, strategy)
    objective, execution = TextToText(run.label_smoothing), compilation.training_execution(run, strategy)
    with strategy.scope():
        optimizer = choice.make_optimizer(run, trained_variables(model, run), model.config.num_hidden_layers)
    has_dynamic_length = run.has_many_lengths and not execution.compiles_all  # as training.loop decides it
    train_call = steps.make_train_call(strategy, model, optimizer, run, objective, has_dynamic_length)
    stacked = {name: values[None] for name, values in batch.items()}
    number = iter(range(10**9))

    def call(is_shown):
        (sums,) = train_call(stacked, next(number))
        return {"loss": float(objective.metrics(dict(zip(objective.sum_names, sums, strict=False)))["loss"])}

    return call, run.jit_compile


def _decoding(request, model, batch, num_calls):
    source = {name: values for name, values in batch.items() if name != "target_word_ids"}
    num_rows = source["input_mask"].shape[0]
    size = threads.rows_of_call(num_rows, num_rows, num_calls)
    parts = [
        {name: values[start : start + size] for name, values in source.items()} for start in range(0, num_rows, size)
    ]
    decode = _Decoding(model, DecodingOptions(request["length"], request["num_beams"], length_penalty=0.0))
    search = decode.ids if request["way"] == "function" else decode.loaded_signature()

    def call(is_shown):
        found = list(threads.in_order(lambda part: search(**part), parts, num_calls))
        ids, scores = (
            np.concatenate([decoded[name].numpy() for decoded in found]) for name in ("target_word_ids", "scores")
        )
        return {"ids": ids.tolist(), "scores": scores.tolist()} if is_shown else None

    return call


class _Decoding(tf.Module):
    """The signature `ids` of an export (keras_bert_app.export.text_answers)."""

    def __init__(self, model, options):
        super().__init__()
        self.model_variables = specs.variables(model)

        @specs.takes_rows(specs.ids_specs(model.config))
        def ids(*rows):
            decoded = model.decoded(specs.checked_ids(model.config, rows), options)
            return {"target_word_ids": decoded.ids, "scores": decoded.scores}

        self.ids = ids

    def loaded_signature(self):
        with tempfile.TemporaryDirectory() as directory:
            tf.saved_model.save(self, directory, signatures={"ids": self.ids})
            self.loaded = tf.saved_model.load(directory)
        return self.loaded.signatures["ids"]


answer = speed_answers.answers_of_calls(make)
