"""Exports a run as SavedModels: raw text to masked words, and the encoder over ids.

python -m keras_bert_app.cli.export --workdir=runs/mine --export_dir=saved_models/mine
"""

from absl import flags

from keras_bert_app.cli import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("workdir", "", "Work directory of a run, one of its checkpoints, or a model in any layout that convert "
                    "reads.")
flags.DEFINE_string("export_dir", "", "Directory that versions are written below, such as saved_models/NAME.")


def main(arguments):
    if arguments:
        raise UserError(f"unexpected argument {arguments[0]!r}; this command takes flags only")
    workdir, export_dir = app.required("workdir", "export_dir")
    with app.quiet_start():
        from keras_bert_app.export.pretrained import export_pretrained
    fill_mask, ids = export_pretrained(workdir, export_dir, log=print)
    print(f"exported {ids}")
    print(f"exported {fill_mask}" if fill_mask else f"{workdir}: has no masked-LM head, so that {export_dir} was not written")


if __name__ == "__main__":
    app.run(main, __doc__)
