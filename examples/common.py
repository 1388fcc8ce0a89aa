"""What the examples share: a command in a new process, and the likeliest symbols at a [MASK]."""

import subprocess
import sys

import numpy as np


def run(command, **flags):
    """Runs a command of the package, such as run("learn_vocab", vocab_file="codes.txt")."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run([sys.executable, "-m", f"keras_bert_app.cli.{command}", *arguments], check=True)


def likeliest(model, tokenizer, rows, count, number=0):
    """The `count` likeliest symbols at mask `number` of each row, strings [B, count]. Special pieces do not count."""
    is_mask = rows["input_word_ids"].numpy() == tokenizer.mask_id
    places = np.array([np.flatnonzero(row)[number] for row in is_mask], np.int32)
    logits = model({**rows, "masked_lm_positions": places[:, None]})["mlm_logits"].numpy()[:, 0]
    logits[:, :5] = -np.inf
    return np.array(tokenizer.vocabulary)[np.argsort(-logits, axis=1)[:, :count]]
