"""Fine-tunes on public tasks. Each row is one finetune command with its dev scores and its baseline.

python -m benchmarks.finetuning.finetune_table --encoder=MODEL --data_dir=TASKS --directory=runs/finetune
python -m benchmarks.finetuning.finetune_table --encoder=MODEL --data_dir=TASKS --directory=runs/finetune \\
    --rows=mrpc,conll2003

A row that was stopped continues. A row that is done is shown again. It is an error if a done row had other flags. TASKS
has the folders glue, conll2003, scibert, squad, codah, dream, chinese, and the extracted reuters21578 and
20newsgroups-bydate, in their official layouts. If a row has several seeds, all metrics are means.
"""

import json
import os
import statistics

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest

_THREE_SEEDS = {"num_seeds": 3}
_RANDOM = {"random_init": True, "num_seeds": 1}
# Lower layers learn more slowly. With one rate for all layers the encoder forgets, and more steps make that worse.
_DECAY = {"learning_rate": 2e-4, "layer_decay": 0.75}
# Tasks of long texts, where a core takes three seconds or more for a batch. With 300 steps a row takes half an hour.
_SHORT = {"num_train_steps": 300}
# A sentence encoder was trained on the mean of its states, and its [CLS] has no meaning yet.
_MRPC = {
    "task": "mrpc",
    "data_dir": "glue/MRPC",
    "learning_rate": 1e-4,
    "num_train_epochs": 4.0,
    "global_batch_size": 16,
    "pooling": "mean",
    "eval_steps": 58,
}
_MRPC_TAUGHT = {
    **_MRPC,
    **_DECAY,
    "num_train_epochs": 5.0,
    "teacher": "mrpc",
    "distillation_weight": 0.7,
    "precision": "bfloat16",
}
_SST = {
    "task": "sst-2",
    "data_dir": "glue/SST-2",
    "learning_rate": 1e-4,
    "num_train_epochs": 2.0,
    "max_seq_length": 64,
    "pooling": "mean",
    "eval_steps": 421,
    "average_decay": 0.99,
}
_SST_CONSISTENT = {**_SST, "consistency_weight": 1.0, "precision": "bfloat16", "bias_correction": False}
_CONLL = {"task": "ner", "data_dir": "conll2003", "learning_rate": 2e-4, "num_train_epochs": 3.0}
# A small task to compare options of transfer. Each row has one change against option_none.
_OPTION = {
    **_SST,
    "eval_steps": 0,
    "average_decay": 0.0,
    "max_train_examples": 4000,
    "num_train_epochs": 2.0,
    "learning_rate": 2e-4,
    "pooling": "cls",
}
_TAGGER = {
    "task": "ner",
    "data_dir": "conll2003",
    "learning_rate": 2e-4,
    "num_train_epochs": 3.0,
    "max_train_examples": 2000,
}
_STS_B = {
    "task": "sts-b",
    "data_dir": "glue/STS-B",
    "learning_rate": 1e-4,
    "num_train_epochs": 3.0,
    "pooling": "mean",
    "eval_steps": 60,
}
_PAIRS = {"task": "rte", "data_dir": "glue/RTE", "learning_rate": 1e-4, "num_train_epochs": 5.0, "pooling": "mean"}
# Runs from a model of one's own pre-training, with as many examples as such a model is worth.
_OWN = {
    "encoder": "own",
    "learning_rate": 4e-4,
    "max_train_examples": 10_000,
    "num_train_epochs": 2.0,
    "num_seeds": 3,
    "eval_steps": 0,
    "average_decay": 0.0,
}
_OWN_SST, _OWN_CONLL = {**_SST, **_OWN}, {**_CONLL, **_OWN}
_CHINESE = {"encoder": "chinese", "learning_rate": 4e-4, "num_train_epochs": 2.0, "num_seeds": 1}
_CHNSENTICORP = {
    **_CHINESE,
    "task": "classification",
    "data_dir": "chinese/chnsenticorp",
    "text_columns": "text_a",
    "max_seq_length": 128,
    "pooling": "mean",
}
_PEOPLES_DAILY = {**_CHINESE, "task": "ner", "data_dir": "chinese/peopledaily", "max_train_examples": 10_000}
_NEWS = {
    "task": "newsgroups",
    "data_dir": "20newsgroups-bydate",
    "max_train_examples": 2000,
    "learning_rate": 2e-4,
    "num_train_epochs": 1.0,
    "global_batch_size": 8,
    "max_eval_examples": 500,
    "pooling": "mean",
}
# Row -> flags of finetune.
ROWS = {
    "mrpc": {**_MRPC, **_DECAY, **_THREE_SEEDS},
    "mrpc_consistent": {**_MRPC, **_DECAY, **_THREE_SEEDS, "consistency_weight": 1.0},
    # Students learn from the answers of the three mrpc seeds together.
    "mrpc_taught": {**_MRPC_TAUGHT, **_THREE_SEEDS},
    "mrpc_taught_random": {**_MRPC_TAUGHT, **_RANDOM},
    "mrpc_random": {**_MRPC, **_DECAY, **_RANDOM},
    "conll2003": {**_CONLL, **_THREE_SEEDS},
    "conll2003_random": {**_CONLL, **_RANDOM},
    "sst-2": {**_SST, **_THREE_SEEDS},
    "sst-2_random": {**_SST, **_RANDOM},
    # Each batch passes the model twice with different dropout (R-Drop).
    "sst-2_consistent": {**_SST_CONSISTENT, **_THREE_SEEDS, "seed": 0},
    "sst-2_consistent_random": {**_SST_CONSISTENT, **_RANDOM},
    # Students learn from the mean logits of the three sst-2 seeds, which score better than each seed, and from labels.
    "sst-2_taught": {**_SST, **_THREE_SEEDS, "teacher": "sst-2", "distillation_weight": 0.7},
    "own_sst-2": _OWN_SST,
    "own_sst-2_random": {**_OWN_SST, "random_init": True},
    "own_conll2003": _OWN_CONLL,
    "own_conll2003_random": {**_OWN_CONLL, "random_init": True},
    "chnsenticorp": _CHNSENTICORP,
    "chnsenticorp_random": {**_CHNSENTICORP, **_RANDOM},
    "peopledaily": _PEOPLES_DAILY,
    "peopledaily_random": {**_PEOPLES_DAILY, **_RANDOM},
    "rte": _PAIRS,
    "sts-b": _STS_B,
    "cola": {
        "task": "cola",
        "data_dir": "glue/CoLA",
        "learning_rate": 1e-4,
        "num_train_epochs": 4.0,
        "pooling": "mean",
    },
    "ncbi-disease": {
        "task": "ner",
        "data_dir": "scibert/ner/NCBI-disease",
        "learning_rate": 2e-4,
        "num_train_epochs": 5.0,
    },
    "bc5cdr": {"task": "ner", "data_dir": "scibert/ner/bc5cdr", "learning_rate": 2e-4, "num_train_epochs": 4.0},
    "reuters": {
        "task": "reuters",
        "data_dir": "reuters21578",
        "max_seq_length": 128,
        "learning_rate": 2e-4,
        "pooling": "mean",
        **_SHORT,
    },
    "newsgroups": {
        "task": "newsgroups",
        "data_dir": "20newsgroups-bydate",
        "max_seq_length": 128,
        "learning_rate": 2e-4,
        "pooling": "mean",
        **_SHORT,
    },
    "squad1": {
        "task": "squad1",
        "data_dir": "squad",
        "learning_rate": 2e-4,
        "global_batch_size": 16,
        "num_train_epochs": 2.0,
    },
    "squad2": {
        "task": "squad2",
        "data_dir": "squad",
        "learning_rate": 2e-4,
        "global_batch_size": 16,
        "num_train_epochs": 2.0,
        "eval_steps": 1000,
    },
    "codah": {"task": "codah", "data_dir": "codah", "learning_rate": 1e-4, "num_train_epochs": 3.0, "pooling": "mean"},
    "dream": {
        "task": "dream",
        "data_dir": "dream",
        "max_seq_length": 256,
        "learning_rate": 1e-4,
        "global_batch_size": 16,
        "num_train_steps": 200,
        "max_eval_examples": 1000,
        "pooling": "mean",
    },
    "documents_head": {**_NEWS, "max_seq_length": 128},
    "documents_head_tail": {**_NEWS, "max_seq_length": 128, "long_documents": "head_tail"},
    "documents_windows": {
        **_NEWS,
        "max_seq_length": 128,
        "long_documents": "windows",
        "max_windows": 4,
        "doc_stride": 126,
    },
    "documents_hierarchical": {
        **_NEWS,
        "max_seq_length": 128,
        "long_documents": "hierarchical",
        "max_windows": 4,
        "doc_stride": 126,
    },
    "documents_long_rows": {**_NEWS, "max_seq_length": 512},
    "option_none": _OPTION,
    "option_pooling_mean": {**_OPTION, "pooling": "mean"},
    "option_pooling_max": {**_OPTION, "pooling": "max"},
    "option_pooling_concat": {**_OPTION, "pooling": "concat"},
    "option_last_four": {**_OPTION, "layers": "last_four", "pooling": "mean"},
    "option_scalar_mix": {**_OPTION, "layers": "scalar_mix", "pooling": "mean"},
    "option_reinit_1": {**_OPTION, "reinit_layers": 1},
    "option_freeze_3": {**_OPTION, "freeze_layers": 3},
    "option_freeze_all": {**_OPTION, "freeze_layers": -1, "learning_rate": 1e-3},
    "option_frozen_bilstm": {
        **_OPTION,
        "freeze_layers": -1,
        "learning_rate": 1e-3,
        "bilstm_units": 128,
        "pooling": "max",
        "layers": "scalar_mix",
    },
    "option_gradual_unfreezing": {**_OPTION, "gradual_unfreezing": 40},
    "option_layer_decay": {**_OPTION, "layer_decay": 0.8},
    "option_slanted_triangular": {**_OPTION, "learning_rate_schedule": "slanted_triangular"},
    "option_average": {**_OPTION, "average_decay": 0.99},
    "option_consistency": {**_OPTION, "consistency_weight": 1.0},
    "option_mlm_tuning": {**_OPTION, "mlm_tuning_steps": 200},
    "option_small": {**_OPTION, "encoder_layers": 2},
    "option_small_distilled": {**_OPTION, "encoder_layers": 2, "teacher": "option_none", "distillation_weight": 0.8},
    "option_bilstm": {**_OPTION, "encoder_layers": 0, "bilstm_units": 128, "pooling": "max", "learning_rate": 1e-3},
    "option_bilstm_distilled": {
        **_OPTION,
        "encoder_layers": 0,
        "bilstm_units": 128,
        "pooling": "max",
        "learning_rate": 1e-3,
        "teacher": "option_none",
        "distillation_weight": 0.8,
    },
    "option_tagger": _TAGGER,
    "option_tagger_document_context": {**_TAGGER, "document_context": True},
    "option_tagger_pos": {**_TAGGER, "task": "pos", "label_column": "1"},
    "option_tagger_frozen": {**_TAGGER, "freeze_layers": -1, "learning_rate": 1e-3, "layers": "scalar_mix"},
    "option_tagger_frozen_bilstm": {
        **_TAGGER,
        "freeze_layers": -1,
        "learning_rate": 1e-3,
        "layers": "scalar_mix",
        "bilstm_units": 128,
    },
    # Several stages (TransBERT): RTE after STS-B, and RTE after STS-B and MRPC.
    "stage_sts-b": {**_STS_B, "num_train_epochs": 1.0},
    # MRPC after STS-B, with rates by layer. Each batch of MRPC passes the model twice with different dropout (R-Drop).
    "stage_sts-b_without_mrpc": {
        **_STS_B,
        **_DECAY,
        "num_train_epochs": 2.0,
        "without": "mrpc",
        "precision": "bfloat16",
        "bias_correction": False,
    },
    "mrpc_from_sts-b": {
        **_MRPC,
        **_DECAY,
        **_THREE_SEEDS,
        "after": "stage_sts-b_without_mrpc",
        "precision": "bfloat16",
        "consistency_weight": 1.0,
    },
    "stage_mrpc": {**_PAIRS, "task": "mrpc", "data_dir": "glue/MRPC", "after": "stage_sts-b", "num_train_epochs": 1.0},
    "rte_from_sts-b": {**_PAIRS, "after": "stage_sts-b"},
    "rte_from_sts-b_mrpc": {**_PAIRS, "after": "stage_mrpc"},
    "option_padded": {**_OPTION, "length_buckets": False},
    "option_bfloat16": {**_OPTION, "precision": "bfloat16"},
}

flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
_OTHERS = {
    name: flags.DEFINE_string(f"{name}_encoder", "", f"Another, for the rows whose names begin with {rows}.")
    for name, rows in (("own", "own"), ("chinese", "chnsenticorp and peopledaily"))
}
_DATA = flags.DEFINE_string("data_dir", "", "Folder of the tasks.")
_PRECISION = flags.DEFINE_string("precision", "float32", "Compute type of the rows that name none.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/finetune", "Where the runs go.")
_ROWS = flags.DEFINE_list("rows", [row for row in ROWS if "encoder" not in ROWS[row]], "Rows to run, in this order.")


def main(arguments):
    del arguments
    encoder, data_dir = app.required("encoder", "data_dir")
    for row in _ROWS.value:
        if row not in ROWS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, list(ROWS))}")
        if (other := ROWS[row].get("encoder")) and not _OTHERS[other].value:
            raise UserError(f"--{other}_encoder is missing, which --rows={row} starts from; give a model's directory")
    done = results_of(
        _ROWS.value,
        lambda row: _run(row, _given(row, encoder, data_dir)),
        os.path.join(_DIRECTORY.value, "table.json"),
        lambda row: _given(row, encoder, data_dir),
    )
    print("\n" + "\n".join(table(done)))


def _given(row, encoder, data_dir):
    """The flags of finetune without the work directory, as a dict."""
    # Without bias correction, step 100 is 3.2 times and step 500 still 1.6 times as large as the rate says, and these
    # runs are short (Zhang et al. 2020, Revisiting Few-sample BERT Fine-tuning, section 4).
    given = {
        "bias_correction": True,
        "precision": _PRECISION.value,
        **ROWS[row],
        "data_dir": os.path.join(data_dir, ROWS[row]["data_dir"]),
    }
    other = given.pop("encoder", None)
    given["init_checkpoint"] = _OTHERS[other].value if other else encoder
    if earlier := given.pop("after", None):  # the row from whose run this row starts
        given["init_checkpoint"] = os.path.join(_DIRECTORY.value, earlier)
    if given.pop("without", None):
        given["data_dir"] = os.path.join(_DIRECTORY.value, "data", row)
    if teacher := given.get("teacher"):
        given["teacher"] = os.path.join(_DIRECTORY.value, teacher)
    return given


def _run(row, given):
    """Trains a row and returns its results."""
    workdir = os.path.join(_DIRECTORY.value, row)
    if other := ROWS[row].get("without"):
        from benchmarks.finetuning.without_sentences import write_without

        of_row, of_other = (os.path.join(_DATA.value, ROWS[each]["data_dir"]) for each in (row, other))
        counts = write_without(ROWS[row]["task"], of_row, ROWS[other]["task"], of_other, given["data_dir"])
        print(
            f"{row}: without sentences of {other}'s dev and test set; left out "
            + ", ".join(f"{count:,} of {total:,} of {split}" for split, (total, count) in counts.items()),
            flush=True,
        )
    own_commands.run("finetune", workdir=workdir, **given)
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        return json.load(file)


def table(done: dict):
    """Yields a table in Markdown, a line for each row.

    Args:
        done: dict. Row -> results of its run.
    """
    yield "| row | metric | dev | baseline | seeds | minutes |"
    yield "|---|---|---|---|---|---|"
    for row, figures in done.items():
        metric, all_runs = figures["metric"], figures.get("runs", [figures])
        runs = [run for run in all_runs if "dev" in run]  # runs without dev scores broke off
        scores = [run["dev"][metric] for run in runs]
        shown = (
            f"{figures['mean']:.4f} +- {figures['standard_deviation']:.4f}" if "runs" in figures else f"{scores[0]:.4f}"
        )
        others = ", ".join(
            f"{name} {statistics.mean(run['dev'][name] for run in runs):.4f}"
            for name in runs[0]["dev"]
            if name != metric
        )
        others += "".join(
            f"; {split}: "
            + ", ".join(f"{name} {value:.4f}" for name, value in scores.items() if name.startswith(metric))
            for split, scores in runs[0].items()
            if split.startswith("dev_") and isinstance(scores, dict)
        )
        if len(runs) < len(all_runs):
            others += f"; {len(all_runs) - len(runs)} broke off"
        baseline = figures["baseline"]
        yield (
            f"| {row} | {metric} | {shown}{f' ({others})' if others else ''} "
            f"| {baseline[metric]:.4f} ({baseline['what']}) | {len(runs)} "
            f"| {sum(run['train_seconds'] for run in runs) / 60:.1f} |"
        )


if __name__ == "__main__":
    app.run(main, __doc__)
