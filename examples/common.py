"""What the examples share: commands, settings of a directory, the likeliest symbols at a [MASK], and differences."""

import json
import os
import subprocess
import sys

import numpy as np
import scipy.stats
from absl import app, flags


def run(command, **flags):
    """Runs a command of the package, such as run("learn_vocab", vocab_file="codes.txt")."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run([sys.executable, "-m", f"keras_bert_app.cli.{command}", *arguments], check=True)


def run_with_flags(main, *names):
    """Runs main(output_dir, ...) with the values of these flags."""
    app.run(lambda _: main(flags.FLAGS.output_dir, **{name: getattr(flags.FLAGS, name) for name in names}))


def small_pretraining(steps):
    """Flags with which a small model learns fast on a CPU: the recipe small_budget, with a number of steps."""
    return {
        "sentence_objective": "none",
        "short_seq_prob": 0,
        "optimizer": "muon",
        "learning_rate": 3e-3,
        "hidden_dropout_prob": 0,
        "attention_probs_dropout_prob": 0,
        "initializer_range": 0.06,
        "num_train_steps": steps,
        "num_warmup_steps": steps // 16,
        "save_checkpoints_steps": max(steps // 8, 1),
    }


def keep_settings(directory, **settings):
    """Writes the settings of a program's directory. Ends the program if the directory has others already."""
    path = f"{directory}/settings.json"
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file, indent=1)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if found != json.loads(json.dumps(settings)):
        sys.exit(f"{path} has {found}, and this start has {settings}; give another --output_dir")


def spread(values, decimals=4):
    """The mean, with the lowest and the highest of several seeds."""
    mean, low, high = (f"{value:.{decimals}f}" for value in (np.mean(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def difference(one, other, decimals=4):
    """The difference of two means, with its 95 % interval over seeds (Welch)."""
    mean = f"{np.mean(one) - np.mean(other):+.{decimals}f}"
    if min(len(one), len(other)) < 2 or np.ptp(one) + np.ptp(other) == 0:
        return mean
    low, high = scipy.stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    return f"{mean} ({low:+.{decimals}f} to {high:+.{decimals}f})"


def likeliest(model, tokenizer, rows, count, number=0):
    """The `count` likeliest symbols at mask `number` of each row, strings [B, count]. Special pieces do not count."""
    is_mask = rows["input_word_ids"].numpy() == tokenizer.mask_id
    places = np.array([np.flatnonzero(row)[number] for row in is_mask], np.int32)
    logits = model({**rows, "masked_lm_positions": places[:, None]})["mlm_logits"].numpy()[:, 0]
    logits[:, :5] = -np.inf
    return np.array(tokenizer.vocabulary)[np.argsort(-logits, axis=1)[:, :count]]
