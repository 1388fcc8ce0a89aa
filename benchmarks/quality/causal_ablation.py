"""The same encoder twice, attending to both sides and to what stands before alone (Devlin et al. 2018, section 5.1, "LTR").

python -m benchmarks.quality.causal_ablation --corpus_dir=CORPUS --vocab_file=VOCAB --data_dir=TASKS --directory=runs/causal

Both are pre-trained with the recipe small_budget at --config, for the same number of steps on the same batches, then
fine-tuned on the same examples of SST-2 and CoNLL-2003, beside a random start of each. What was stopped goes on. TASKS has
the folders glue/SST-2 and conll2003.
"""

import os

from absl import flags

from benchmarks.common.identity import code_digest, file_digest
from benchmarks.common.resumable import results_of
from benchmarks.reliability import own_commands
from keras_bert_app.cli.common import app

flags.DEFINE_string("corpus_dir", "", "What prepare_corpus wrote.")
flags.DEFINE_string("vocab_file", "", "Its vocabulary.")
flags.DEFINE_string("data_dir", "", "Folder of the tasks.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/causal", "Where the runs go.")
_CONFIG = flags.DEFINE_string("config", "tiny", "Published size.")
_STEPS = flags.DEFINE_integer("num_train_steps", 1500, "Steps of pre-training.", lower_bound=1)

_ENCODERS = {"bidirectional": False, "causal": True}


def main(arguments):
    del arguments
    corpus_dir, vocab_file, data_dir = app.required("corpus_dir", "vocab_file", "data_dir")
    rows = [
        f"{encoder} {job}"
        for encoder in _ENCODERS
        for job in ("pretrain", *(f"{task}{start}" for task in own_commands.SMALL_TASKS for start in ("", " random")))
    ]

    def run(row):
        encoder, job, *is_random = row.split()
        workdir = os.path.join(_DIRECTORY.value, row.replace(" ", "_"))
        start = os.path.join(_DIRECTORY.value, f"{encoder}_pretrain")
        if job == "pretrain":
            own_commands.run(
                "pretrain",
                recipe="small_budget",
                config=_CONFIG.value,
                corpus_dir=corpus_dir,
                vocab_file=vocab_file,
                is_causal=_ENCODERS[encoder],
                train_minutes=0,
                num_train_steps=_STEPS.value,
                num_warmup_steps=_STEPS.value // 16,
                jit_compile="parts",
                workdir=workdir,
            )
            return _last_evaluation(workdir)
        return own_commands.finetune_small(job, data_dir, workdir, init_checkpoint=start, random_init=bool(is_random))

    done = results_of(
        rows,
        run,
        os.path.join(_DIRECTORY.value, "table.json"),
        {
            "config": _CONFIG.value,
            "steps": _STEPS.value,
            "corpus": file_digest(os.path.join(corpus_dir, "manifest.json")),
            "vocabulary": file_digest(vocab_file),
            "data_dir": data_dir,
            "code": code_digest(),
        },
    )
    print("\n" + "\n".join(table(done)))


def _last_evaluation(workdir):
    rows = [row for row in own_commands.metrics_of(workdir) if "eval_masked_lm_accuracy" in row]
    return {
        "metric": "masked LM accuracy",
        "score": rows[-1]["eval_masked_lm_accuracy"],
        "baseline": rows[-1]["eval_unigram_accuracy"],
    }


def table(done):
    """Markdown: a line for each measure."""
    yield (
        "| measure | needs no model | "
        + " | ".join(f"{encoder}{start}" for encoder in _ENCODERS for start in ("", ", random start"))
        + " |"
    )
    yield "|---|---|" + "---|" * (2 * len(_ENCODERS))
    for job in ("pretrain", *own_commands.SMALL_TASKS):
        first = done[f"{next(iter(_ENCODERS))} {job}"]
        cells = [done.get(f"{encoder} {job}{start}") for encoder in _ENCODERS for start in ("", " random")]
        measure = first["metric"] if job == "pretrain" else f"{job}, {first['metric']}"
        yield (
            f"| {measure} | {first['baseline']:.4f} | "
            + " | ".join(f"{cell['score']:.4f}" if cell else "" for cell in cells)
            + " |"
        )


if __name__ == "__main__":
    app.run(main, __doc__)
