"""Trains a small BERT on the documentation of the installed packages, exports it, and asks it questions.

make demo
"""

from absl import flags

from keras_bert_app.cli.common import app, written_places

_WORKDIR = flags.DEFINE_string("workdir", "runs/demo", "Directory for corpus, vocabulary and run.")
_EXPORT_DIR = flags.DEFINE_string("export_dir", "saved_models/docs_bert", "Directory for the exported versions.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the held-out choice, weights, pairs and masks.")


def main(arguments: list[str]) -> None:
    with app.quiet_start():
        from keras_bert_app.cli.common import documentation_demo
    documentation_demo.run_demo(_WORKDIR.value, _EXPORT_DIR.value, seed=_SEED.value)


if __name__ == "__main__":
    app.run(main, __doc__, writes={"workdir": "", "export_dir": written_places.EXPORT})
