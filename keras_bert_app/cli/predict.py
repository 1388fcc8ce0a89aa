"""Answers examples without labels with a fine-tuned run: a file in the task's layout, or raw texts.

python -m keras_bert_app.cli.predict --workdir=runs/sst-2 --input_file=glue/SST-2/test.tsv --output_dir=answers/sst-2
python -m keras_bert_app.cli.predict --workdir=runs/squad2 --input_file=questions.json --output_dir=answers/squad2 \\
    --null_score_diff_threshold=-2
python -m keras_bert_app.cli.predict --workdir=runs/sst-2 --text "a warm day" --text "a grim day"
python -m keras_bert_app.cli.predict --workdir=runs/ner --text_file=sentences.txt --output_dir=answers/ner

With --input_file the predictions have the task's official format, and probabilities.jsonl is beside them. The answers
to raw texts are printed, and go to answers.jsonl in --output_dir if it is given.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import answer_flags, app, output_files, raw_text_flags, written_places
from keras_bert_app.errors import UserError
from pipelines import storage
from pipelines.plurals import counted

flags.DEFINE_string("workdir", "", "Work directory of a fine-tuning run.")
_INPUT_FILE = flags.DEFINE_string("input_file", "", "A file in the layout of the task; it needs no labels.")
raw_text_flags.define()
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "", "Directory for predictions and probabilities.jsonl; for raw texts, answers.jsonl."
)
written_places.define_overwrite()
_given = answer_flags.define()
_ANSWERS = "answers.jsonl"


def main(arguments: list[str]) -> None:
    (workdir,) = app.required("workdir")
    if raw_text_flags.is_given():
        _answer_texts(workdir)
        return
    if not _INPUT_FILE.value:
        raise UserError(
            "--input_file is missing: a file in the layout of the task; raw texts go into --text or --text_file"
        )
    input_file, output_dir = app.required("input_file", "output_dir")
    answer_flags.check_new_answers(output_dir)
    with app.quiet_start():
        from keras_bert_app.tasks.readers.tables import advice_of_trained_run
        from keras_bert_app.tasks.scoring import opened, set_threads
    set_threads(workdir)
    run = opened(workdir, **_given(), stream=sys.stderr)
    try:
        count, names, notes = run.predict(input_file, output_dir)
    except UserError as error:
        message = advice_of_trained_run(str(error), run.run.text_columns)
        is_about_a_line = message.startswith(f"{input_file}:") and "--text_file" not in message
        raise UserError(f"{message}; plain texts go into --text_file" if is_about_a_line else message) from None
    print(f"{input_file}: {counted(count, 'example')}{''.join('; ' + note for note in notes)}")
    print(f"wrote {output_dir}: {', '.join(names)}")


def _answer_texts(workdir):
    """Prints the answers to raw texts, and writes them."""
    given = _given()
    if _INPUT_FILE.value:
        raise UserError("--input_file and raw texts were both given; give one of them")
    if given["together"]:
        raise UserError("--ensemble is for --input_file; the best seed alone answers raw texts; leave out --ensemble")
    if "strategy" in given["changes"]:
        raise UserError("--strategy is for --input_file; one device answers raw texts; leave out --strategy")
    raw_text_flags.check()
    output_dir, path = _OUTPUT_DIR.value, os.path.join(_OUTPUT_DIR.value, _ANSWERS)
    if output_dir:
        output_files.make_place_for(path, "output_dir")
        written_places.check_new([path], "output_dir")
    with app.quiet_start():
        from keras_bert_app.export import finetuned_export, raw_answers
        from keras_bert_app.tasks.scoring import set_threads
    set_threads(workdir)
    serve, names = finetuned_export.raw_text_function(workdir, given["changes"])

    size = given["changes"].get("global_batch_size", raw_answers.BATCH_SIZE)

    def lines():
        for row, answer in raw_answers.answers(serve, raw_text_flags.rows(names), size):
            print(*raw_answers.text_lines(row, answer), sep="\n", flush=True)
            yield raw_answers.json_line(row, answer).encode()

    if output_dir:
        storage.write_whole(path, lines())
        print(f"wrote {path}")
    else:
        for _ in lines():
            pass


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_dir": ""})
