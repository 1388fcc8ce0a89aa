"""Our fine-tuning, asked by benchmarks.finetuning.finetuning_epoch; not run by hand. Batches of like lengths, padded to lengths that are fitted to them."""

import os
import sys

import peer_answers  # first of all

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np

from benchmarks.finetuning.finetuning_way import Way
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.interop import load
from pipelines.wordpiece.tokenizer import BertTokenizer


def make(request):
    weights, _ = load.load_weights(request["directory"], allow_missing=("masked_lm", "next_sentence"))
    run = FinetuningConfig(
        task="sst-2",
        data_dir=request["data_dir"],
        max_seq_length=request["max_seq_length"],
        global_batch_size=request["batch_size"],
        num_train_epochs=1.0,
        max_train_examples=request["examples"],
        max_eval_examples=request["dev_examples"],
        strategy="one_device",
        learning_rate=request["learning_rate"],
        learning_rate_schedule="constant",
        num_warmup_steps=0,
        bias_correction=True,
        precision=request["precision"],
        jit_compile=request["compiled"],
        log_steps=1,
    )
    way = Way(weights, run, BertTokenizer(weights.vocabulary, weights.config.do_lower_case))
    epochs = iter(range(10**9))

    def train():
        way.take_order(next(epochs))
        way.training()

    def predict():
        way.prediction()
        return np.array(way.answers)

    return train, predict


if __name__ == "__main__":
    peer_answers.serve_epochs(make, ("tensorflow", "keras"))
