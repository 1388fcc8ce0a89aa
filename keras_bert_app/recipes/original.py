"""BERT as google-research/bert trains it, first nine tenths: 128 tokens a row (Devlin et al. 2019, appendix A.2).

    python -m keras_bert_app.cli.pretrain --recipe=original --config=base --corpus_dir=CORPUS --vocab_file=VOCAB --workdir=RUN

--config takes tiny, mini, small, medium, base or large. `original_long_rows` goes on from it at 512 tokens.
Cost: the paper's base took 4 days on 16 TPU chips, its large 4 days on 64, both phases together. Expect at --config=tiny
after ten minutes of one CPU core (a thousandth of the examples): held-out MLM accuracy 0.063, unigram 0.046 (BUILD.md,
"Recipes after ten minutes"). Not run here at full length.
"""

CONFIG = "base"
MODEL = {}
RUN = {
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "global_batch_size": 256,
    "learning_rate": 1e-4,
    "num_warmup_steps": 10_000,
    "num_train_steps": 900_000,
    "save_checkpoints_steps": 10_000,
    "eval_steps": 50_000,
}
