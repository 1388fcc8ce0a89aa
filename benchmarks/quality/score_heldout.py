"""Scores a model on the held-out documents of a corpus under BERT's own masks.

python -m benchmarks.quality.score_heldout --model=runs/mini --corpus_dir=CORPUS --vocab_file=VOCAB

This score compares recipes and peers. The model may have any layout that convert reads. The figures are those of
benchmarks.quality.heldout, under the names of pretrain's evaluations.
"""

from absl import flags

from benchmarks.quality import heldout
from keras_bert_app.cli.common import app

flags.DEFINE_string("model", "", "The model.")
flags.DEFINE_string("corpus_dir", "", "Directory that prepare_corpus wrote.")
flags.DEFINE_string("vocab_file", "", "The model's vocabulary.")


def main(arguments):
    del arguments
    for name, value in heldout.evaluate(*app.required("model", "corpus_dir", "vocab_file")).items():
        print(f"{name}  {value:,.4f}")


if __name__ == "__main__":
    app.run(main, __doc__)
