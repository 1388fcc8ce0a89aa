"""Scores a fine-tuned run on labelled examples: by default on the half of dev that did not choose its weights.

python -m keras_bert_app.cli.evaluate --workdir=runs/sst-2
python -m keras_bert_app.cli.evaluate --workdir=runs/sst-2 --ensemble  # all seeds of a run with --num_seeds together
python -m keras_bert_app.cli.evaluate --workdir=runs/xnli --split=test --output_dir=answers/xnli
"""

import dataclasses
import os
import sys

from absl import flags

from keras_bert_app.cli.common import answer_flags, app, written_places
from keras_bert_app.errors import UserError
from pipelines.plurals import counted

flags.DEFINE_string("workdir", "", "Work directory of a fine-tuning run.")
_DATA_DIR = flags.DEFINE_string("data_dir", "", "Directory of the task's files; by default the run's own.")
_SPLIT = flags.DEFINE_string("split", "dev", "train, dev, test, or another split of the task.")
_INPUT_FILE = flags.DEFINE_string("input_file", "", "A labelled file, instead of --data_dir and --split.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "", "Directory for predictions, probabilities and scores; by default they are not written."
)
written_places.define_overwrite()
_given = answer_flags.define()


def main(arguments: list[str]) -> None:
    (workdir,) = app.required("workdir")
    for name in ("split", "data_dir") if _INPUT_FILE.value else ():
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}={flags.FLAGS[name].value}: has no meaning with --input_file; leave it out")
    if _OUTPUT_DIR.value:
        answer_flags.check_new_answers(_OUTPUT_DIR.value)
    with app.quiet_start():
        from keras_bert_app.tasks.scoring import make_ready, opened, set_threads
    set_threads(workdir)
    run = opened(workdir, **_given(), stream=sys.stderr)
    data_dir = _DATA_DIR.value or run.run.data_dir
    if run.task.has_file(data_dir, "dev"):  # the file of dev examples replaces the rows that the run held out
        run.run = dataclasses.replace(run.run, dev_fraction=0.0)
    path = _INPUT_FILE.value or run.task.path(data_dir, _SPLIT.value, dev_fraction=run.run.dev_fraction)
    if _OUTPUT_DIR.value:
        make_ready(_OUTPUT_DIR.value)
    is_own = os.path.realpath(data_dir) == os.path.realpath(run.run.data_dir)
    has_chosen = _SPLIT.value.startswith("dev") and not _INPUT_FILE.value and is_own
    scores, examples, notes, predicted = run.evaluate(
        path,
        most=run.run.max_eval_examples if has_chosen and _SPLIT.value == "dev" else 0,
        split=None if _INPUT_FILE.value else _SPLIT.value,
        has_chosen=has_chosen,
    )
    print(f"{path}: {counted(len(examples), 'example')}{''.join('; ' + note for note in notes)}")
    low, high = run.interval(examples, predicted)
    metric = run.task.metrics[0]
    for name, value in scores.items():
        print(f"  {name} {value:.4f}{f' (95 % interval {low:.4f} to {high:.4f})' if name == metric else ''}")
    signatures = run.task.family.signatures(examples)
    for name, signature in signatures.items():
        print(f"  {name}: {signature}")
    if _OUTPUT_DIR.value:
        figures = {"file": path, "examples": len(examples), **scores, f"{metric}_interval": [low, high]}
        figures |= {"signatures": signatures} if signatures else {}
        names = run.write(_OUTPUT_DIR.value, examples, predicted, scores=figures)
        print(f"wrote {_OUTPUT_DIR.value}: {', '.join(names)}")


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_dir": ""})
