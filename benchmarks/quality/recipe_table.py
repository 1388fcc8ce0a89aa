"""Compares pre-training recipes after the same time, or after the same tokens, on the same held-out text.

python -m benchmarks.quality.recipe_table --corpus_dir=CORPUS --vocab_file=VOCAB --directory=runs/recipes
python -m benchmarks.quality.recipe_table --corpus_dir=CORPUS --vocab_file=VOCAB --directory=runs/recipes \\
    --rows=small_budget:2,original:2
python -m benchmarks.quality.recipe_table --corpus_dir=CORPUS --vocab_file=VOCAB --directory=runs/recipes \\
    --rows=steps_adamw:1,steps_sines:1,steps_muon:1,steps_sines_muon:1,steps_short_rows:1,steps_quarter:1

Each row runs the pretrain command, so a row that was stopped continues. DIRECTORY/results.json has the finished rows.
Rows whose names begin with steps_ take 600 steps of 2,048 tokens. They add the parts of small_budget one by one.
All other rows train for --minutes. All runs share corpus, vocabulary, model size and machine. A recipe that is made
for many devices gets a smaller batch and learning rate here (see ROWS).

The evaluation is BERT's own masking (15 % of the pieces) of the held-out documents in rows of 128, for every recipe.
Models with a next-sentence head are also evaluated on pairs.
"""

import os

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.identity import code_digest, file_digest
from benchmarks.common.resumable import results_of, spread
from benchmarks.quality.heldout import evaluate
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

# Flags of all rows.
_SMALL = {
    "config": "tiny",
    "global_batch_size": 32,
    "num_train_steps": 1_000_000,
    "eval_steps": 1_000_000,
    "save_checkpoints_steps": 200,
    "jit_compile": "parts",
}
# Row -> stages, each (recipe or None, share of the minutes, flags).
ROWS = {
    # The warm-up is a hundredth of the budget, as in the paper: 10,000 of a million steps.
    "original": [("original", 1.0, {"num_warmup_steps": 10_000})],
    "two_phase": [
        ("original", 0.9, {"num_warmup_steps": 10_000}),
        ("original_long_rows", 0.1, {"num_warmup_steps": 10_000, "global_batch_size": 8}),
    ],
    # The paper scales LAMB's rate with the square root of the batch size: 1.77e-3 at 4,096 becomes 4.4e-4 at 256.
    "large_batch": [
        (
            "large_batch",
            1.0,
            {
                "global_batch_size": 256,
                "learning_rate": 4.4e-4,
                "num_warmup_steps": 25_000,
                "save_checkpoints_steps": 25,
            },
        )
    ],
    "small_budget": [("small_budget", 1.0, {})],
    # The settings of `make demo`.
    "demo": [
        (
            None,
            1.0,
            {
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "initializer_range": 0.08,
                "global_batch_size": 16,
                "optimizer": "muon",
                "learning_rate": 3e-3,
                "num_warmup_steps": 66_000,
                "position_initializer": "sinusoidal",
                # Two thirds of the steps, as in the demo. A row here takes about 2,400 steps, the demo 3,000.
                "length_ramp_steps": 1_600,
            },
        )
    ],
}
# The parts of small_budget one by one, in 600 steps of 2,048 tokens of full sentences.
_STEPS = {
    "train_minutes": 0.0,
    "num_train_steps": 600,
    "num_warmup_steps": 60,
    "global_batch_size": 16,
    "adam_beta_2": 0.98,
    "initializer_range": 0.08,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "sentence_objective": "none",
    "short_seq_prob": 0.0,
    "learning_rate": 1e-3,
}
_SINES, _MUON = {"position_initializer": "sinusoidal"}, {"optimizer": "muon", "learning_rate": 3e-3}
ROWS |= {
    f"steps_{name}": [(None, 1.0, {**_STEPS, **changes})]
    for name, changes in {
        "narrow_weights": {"initializer_range": 0.02},
        "adamw": {},
        "adamw_3e-3": {"learning_rate": 3e-3},
        "sines": _SINES,
        "muon": _MUON,
        "muon_1e-3": {"optimizer": "muon"},
        "sines_muon": {**_SINES, **_MUON},
        "sines_muon_6e-3": {**_SINES, **_MUON, "learning_rate": 6e-3},
        "short_rows": {**_SINES, **_MUON, "length_ramp_steps": 300},
        "quarter": {**_SINES, **_MUON, "length_ramp_steps": 300, "masked_lm_prob": 0.25},
    }.items()
}
DEFAULT_ROWS = [
    "original:1",
    "two_phase:1",
    "large_batch:1",
    "small_budget:1",
    "demo:1",
    "original:2",
    "original:3",
    "small_budget:2",
    "small_budget:3",
]

_CORPUS = flags.DEFINE_string("corpus_dir", "", "Directory that prepare_corpus wrote, with held-out documents.")
_VOCAB = flags.DEFINE_string("vocab_file", "", "The vocabulary of all runs.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/recipes", "Directory for the runs and the results.")
_MINUTES = flags.DEFINE_float(
    "minutes", 10.0, "Training time of each row, except rows whose names begin with steps_.", lower_bound=0.01
)
_ROWS = flags.DEFINE_list("rows", DEFAULT_ROWS, "Rows to run, each as NAME:SEED.")


def main(arguments):
    del arguments
    app.required("corpus_dir", "vocab_file")
    for row in _ROWS.value:
        name, _, seed = row.partition(":")
        if name not in ROWS or not seed.isdigit():
            raise UserError(f"--rows: {row!r} is not NAME:SEED with a NAME of {', '.join(ROWS)}")
    results = results_of(
        _ROWS.value,
        lambda row: _train_and_evaluate(*row.split(":")),
        os.path.join(_DIRECTORY.value, "results.json"),
        {
            "minutes": _MINUTES.value,
            "corpus": file_digest(os.path.join(_CORPUS.value, "manifest.json")),
            "vocabulary": file_digest(_VOCAB.value),
            "code": code_digest(),
        },
    )
    print("\n" + "\n".join(table(results)))


def _train_and_evaluate(name, seed):
    """Trains the stages of a row. Returns the held-out figures of its model and the number of steps."""
    previous, steps = None, 0
    for number, (recipe, share, changes) in enumerate(ROWS[name], start=1):
        workdir = os.path.join(_DIRECTORY.value, f"{name}-{seed}-{number}")
        given = {
            **_SMALL,
            "train_minutes": _MINUTES.value * share,
            **changes,
            "corpus_dir": _CORPUS.value,
            "vocab_file": _VOCAB.value,
            "workdir": workdir,
            "seed": seed,
            **({"recipe": recipe} if recipe else {}),
            **({"init_checkpoint": previous} if previous else {}),
        }
        own_commands.run("pretrain", **given)
        previous = workdir
        steps += max(line["step"] for line in own_commands.metrics_of(workdir))
    return {**evaluate(previous, _CORPUS.value, _VOCAB.value), "steps": steps}


def table(results: dict):
    """Yields a table in Markdown: a line for each name of a row, with mean and range of its seeds.

    Args:
        results: dict. Row -> figures.
    """
    yield "| row | seeds | steps | held-out MLM accuracy | unigram | MLM loss | NSP accuracy | majority |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in ROWS:
        rows = [result for row, result in results.items() if row.split(":")[0] == name]
        if rows:
            pairs = [row["eval_next_sentence_accuracy"] for row in rows if "eval_next_sentence_accuracy" in row]
            yield (
                f"| {name} | {len(rows)} | {spread([row['steps'] for row in rows], ',.0f')} "
                f"| {spread([row['eval_masked_lm_accuracy'] for row in rows])} "
                f"| {rows[0]['eval_unigram_accuracy']:.4f} | {spread([row['eval_masked_lm_loss'] for row in rows])} "
                f"| {spread(pairs) if pairs else '-'} | {rows[0].get('eval_majority_share', 0.0):.4f} |"
            )


if __name__ == "__main__":
    app.run(main, __doc__)
