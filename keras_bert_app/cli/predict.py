"""Answers the examples of a file with a fine-tuned run: predictions in the task's official format, and probabilities.

python -m keras_bert_app.cli.predict --workdir=runs/sst-2 --input_file=glue/SST-2/test.tsv --output_dir=answers/sst-2
python -m keras_bert_app.cli.predict --workdir=runs/squad2 --input_file=questions.json --output_dir=answers/squad2 \\
    --null_score_diff_threshold=-2
"""

import sys

from absl import flags

from keras_bert_app.cli.common import answer_flags, app

flags.DEFINE_string("workdir", "", "Work directory of a fine-tuning run.")
flags.DEFINE_string("input_file", "", "A file in the layout of the task; it needs no labels.")
flags.DEFINE_string("output_dir", "", "Where predictions and probabilities.jsonl go.")
_given = answer_flags.define()


def main(arguments: list[str]) -> None:
    workdir, input_file, output_dir = app.required("workdir", "input_file", "output_dir")
    with app.quiet_start():
        from keras_bert_app.tasks.scoring import opened
    count, names, notes = opened(workdir, **_given(), stream=sys.stderr).predict(input_file, output_dir)
    print(f"{input_file}: {count:,} examples{''.join('; ' + note for note in notes)}")
    print(f"wrote {output_dir}: {', '.join(names)}")


if __name__ == "__main__":
    app.run(main, __doc__)
