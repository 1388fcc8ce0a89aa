"""Trains a model on STS-B by sentence-transformers' own trainer, for the row "peer" of benchmarks.vectors.sts.

HF_ENV/bin/python benchmarks/vectors/sts_sentence_transformers.py REQUEST.json

The environment has benchmarks/requirements-vectors.txt. The request has model, train (train.tsv), output, seed,
num_steps, learning_rate, num_warmup_steps, weight_decay_rate, adam_epsilon, max_seq_length and global_batch_size.
"""

import csv
import json
import os
import sys
import time

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import CoSENTLoss


def main(path):
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    with open(request["train"], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = ("sentence1", "sentence2", "score")
    columns = {name: [row[name] for row in rows] for name in names}
    columns["score"] = [float(score) / 5.0 for score in columns["score"]]
    model = SentenceTransformer(request["model"], device="cpu")
    model.max_seq_length = request["max_seq_length"]
    arguments = SentenceTransformerTrainingArguments(
        output_dir=os.path.join(request["output"], "checkpoints"),
        max_steps=request["num_steps"],
        per_device_train_batch_size=request["global_batch_size"],
        learning_rate=request["learning_rate"],
        warmup_steps=request["num_warmup_steps"],
        weight_decay=request["weight_decay_rate"],
        adam_epsilon=request["adam_epsilon"],
        seed=request["seed"],
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=CoSENTLoss(model)
    )
    start = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - start
    model.save_pretrained(request["output"])
    texts = trainer.state.global_step * request["global_batch_size"] * 2
    with open(os.path.join(request["output"], "training.json"), "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "texts": texts}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
