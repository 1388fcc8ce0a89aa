"""Fills the [MASK]s of texts with an exported model.

python -m keras_bert_app.cli.fill_mask --saved_model=saved_models/mine "The [MASK] of the tensor"
"""

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("saved_model", "", "Directory that export wrote, with or without its version number.")


def main(texts: list[str]) -> None:
    (saved_model,) = app.required("saved_model")
    if not texts:
        raise UserError('no text was given; write it after the flags: fill_mask --saved_model=DIR "The [MASK] is here"')
    for text in texts:
        if "[MASK]" not in text:
            raise UserError(f"the text {text[:60]!r} has no [MASK]; put [MASK] where a word is to be filled in")
    with app.quiet_start():
        from keras_bert_app.export import answers
    for line in answers.fill_mask_lines(saved_model, texts):
        print(line)


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)
