"""Scores a model on a corpus's held-out documents under BERT's own masks, by which recipes and peers are compared.

python -m benchmarks.quality.score_heldout --model=runs/mini --corpus_dir=CORPUS --vocab_file=VOCAB

MODEL is in any layout that convert reads. The figures are those of benchmarks.quality.heldout, named as pretrain's evaluations name them.
"""

from absl import flags

from benchmarks.quality import heldout
from keras_bert_app.cli.common import app

flags.DEFINE_string("model", "", "The model.")
flags.DEFINE_string("corpus_dir", "", "Of prepare_corpus.")
flags.DEFINE_string("vocab_file", "", "The model's vocabulary.")


def main(arguments):
    del arguments
    for name, value in heldout.evaluate(*app.required("model", "corpus_dir", "vocab_file")).items():
        print(f"{name}  {value:,.4f}")


if __name__ == "__main__":
    app.run(main, __doc__)
