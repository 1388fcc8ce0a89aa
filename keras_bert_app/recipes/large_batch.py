"""Large batches with LAMB (You et al. 2020) for many devices: fewer steps, each with more rows.

    python -m keras_bert_app.cli.pretrain --recipe=large_batch --corpus_dir=CORPUS --vocab_file=VOCAB --workdir=RUN

Learning rate, warm-up and steps are those of the paper for a batch of 4,096 rows. On few devices
--gradient_accumulation_steps splits the rows of a replica into parts; the result is that of the whole batch.
Cost: 125,000 steps of 4,096 x 128 tokens. The recipe has not been run here at full length. Expected result with
--config=tiny after ten minutes on one CPU core (130 steps of 256 rows, one seed): held-out MLM accuracy 0.032, unigram
baseline 0.046 (docs/results/pretraining.md).
"""

CONFIG = "base"
MODEL = {}
RUN = {
    "optimizer": "lamb",
    "bias_correction": True,
    "global_batch_size": 4_096,
    "learning_rate": 1.77e-3,
    "num_warmup_steps": 3_125,
    "num_train_steps": 125_000,
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "learning_rate_schedule": "polynomial",
    "save_checkpoints_steps": 500,
    "eval_steps": 2_000,
}
