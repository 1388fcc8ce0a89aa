"""Asks an exported model about texts: the class of a text, the tags of a sentence, the answer to a question.

python -m keras_bert_app.cli.ask --saved_model=saved_models/sst-2 "a warm day" "a grim day"
python -m keras_bert_app.cli.ask --saved_model=saved_models/ner "Marie Curie was born in Warsaw."
python -m keras_bert_app.cli.ask --saved_model=saved_models/squad --question "Where was she born?" \\
    --context "Marie Curie was born in Warsaw."

The model is an export of a fine-tuned run or of a pre-trained model. A pre-trained BERT fills in the [MASK]s of its
texts, and a GPT continues them. Texts after the flags are the same as --text.
"""

import sys

from absl import flags

from keras_bert_app.cli.common import app, raw_text_flags
from keras_bert_app.errors import UserError, nearest

flags.DEFINE_string("saved_model", "", "Directory that export wrote, with or without its version number.")
raw_text_flags.define()
_OUTPUT_FORMAT = flags.DEFINE_string("output_format", "table", "table, for people, or jsonl, one object an example.")
_FORMATS = ("table", "jsonl")


def main(texts: list[str]) -> None:
    (saved_model,) = app.required("saved_model")
    if _OUTPUT_FORMAT.value not in _FORMATS:
        raise UserError(
            f"--output_format={_OUTPUT_FORMAT.value} is not known: {nearest(_OUTPUT_FORMAT.value, _FORMATS)}"
        )
    if not texts and not raw_text_flags.is_given():
        raise UserError(
            'no text was given; write it after the flags: ask --saved_model=DIR "a text", or give --text_file=FILE'
        )
    raw_text_flags.check(texts)
    with app.quiet_start():
        from keras_bert_app.export import raw_answers
    serve, names = raw_answers.load(saved_model)
    for row, answer in raw_answers.answers(serve, raw_text_flags.rows(names, texts)):
        if _OUTPUT_FORMAT.value == "jsonl":
            sys.stdout.write(raw_answers.json_line(row, answer))
        else:
            print(*raw_answers.text_lines(row, answer), sep="\n")
        sys.stdout.flush()


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)
