"""Fine-tunes a BERT on a task, from labelled files to the weights that score best on the development examples.

To learn the labels of texts in tables (train.csv or train.tsv, and dev.csv or dev.tsv):
python -m keras_bert_app.cli.finetune --task=classification --data_dir=tickets --text_columns=subject,body \\
    --label_column=team --init_checkpoint=hf://google-bert/bert-base-uncased --workdir=runs/tickets

To learn from one file whose columns have no names, with a twentieth of its rows as the development examples:
python -m keras_bert_app.cli.finetune --task=classification --data_dir=ag_news/train.csv --dev_fraction=0.05 \\
    --text_columns=1,2 --label_column=0 --init_checkpoint=runs/mine --workdir=runs/ag_news

To train on a published task, three times with different seeds (--list_tasks names all tasks):
python -m keras_bert_app.cli.finetune --task=sst-2 --data_dir=glue/SST-2 --init_checkpoint=runs/mine \\
    --workdir=runs/sst-2 --num_seeds=3

A run that was stopped goes on with the same command. SIGINT (Ctrl-C) and SIGTERM let it finish its step and save. The
exit code is 130 or 143 after these signals, and 2 after an error.
"""

import dataclasses

from absl import flags

from keras_bert_app.cli.common import app, config_flags, flag_groups, written_places
from keras_bert_app.config.bert_config import SIZES, TRANSFORMER_SIZES
from keras_bert_app.config.finetuning_config import PATHS, PATHS_OR_HANDLES, FinetuningConfig
from keras_bert_app.interop.hub import is_handle

flags.DEFINE_string("workdir", "", "Directory of the run: configuration, checkpoints, metrics, results.")
_NUM_SEEDS = flags.DEFINE_integer(
    "num_seeds",
    1,
    "Number of runs, each with the next seed, in WORKDIR/seed-N. The last lines show their mean and deviation.",
    lower_bound=1,
)
_LIST_TASKS = flags.DEFINE_bool("list_tasks", False, "Print the tasks and end.")
_RANDOM = flags.DEFINE_bool(
    "random_init",
    False,
    "Take only the shape and vocabulary of --init_checkpoint, not its weights. This gives a baseline.",
)
_CONFIG = flags.DEFINE_string(
    "config",
    "",
    f"Without --init_checkpoint: a published size ({', '.join(SIZES)}; for text to text also "
    f"{', '.join(TRANSFORMER_SIZES)}) or a bert_config.json.",
)
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file",
    "",
    "Without --init_checkpoint: the WordPiece vocabulary. A published size is cased if its vocabulary is.",
)
# --max_eval_examples limits an evaluation here, so --max_eval_steps has no meaning.
_given_for_run = config_flags.define_flags(
    [field for field in dataclasses.fields(FinetuningConfig) if field.name != "max_eval_steps"],
    is_path=PATHS,
)


def main(arguments):
    if _LIST_TASKS.value:
        with app.quiet_start():
            from keras_bert_app.tasks import keyword_start
        for name, summary in keyword_start.list_tasks().items():
            print(f"{name:16} {summary}")
        return
    (workdir,) = app.required("workdir")
    wanted = _given_for_run()
    for name in PATHS_OR_HANDLES:
        if wanted.get(name) and not is_handle(wanted[name]):
            wanted[name] = config_flags.absolute(wanted[name])
    FinetuningConfig(**wanted)  # reports a bad value before anything is read
    with app.quiet_start():
        from keras_bert_app.tasks import finetuning_start, keyword_start
    source = keyword_start.source_of(
        wanted.get("init_checkpoint", ""), not _RANDOM.value, _CONFIG.value, _VOCAB_FILE.value
    )
    finetuning_start.launch(workdir, wanted, _NUM_SEEDS.value, source)


if __name__ == "__main__":
    app.run(main, __doc__, writes={"workdir": written_places.RUN}, grouped=flag_groups.FINETUNE)
