"""The first phase of BERT, with 128 tokens per row (Devlin et al. 2019, appendix A.2).

    python -m keras_bert_app.cli.pretrain --recipe=original --config=base --corpus_dir=CORPUS --vocab_file=VOCAB \\
        --workdir=RUN

The phase has nine tenths of the steps. --config takes tiny, mini, small, medium, base or large. `original_long_rows`
continues with 512 tokens.
Cost: both phases together took the authors 4 days on 16 TPU chips for base, and 4 days on 64 chips for large. Expected
result with --config=tiny after ten minutes on one CPU core, a thousandth of the examples, three seeds: held-out MLM
accuracy 0.060 to 0.066, unigram baseline 0.046 (docs/results/pretraining.md). The recipe has not been run here at full
length.
"""

CONFIG = "base"
NEXT = "original_long_rows"
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
