"""The second phase of BERT: the last tenth of the steps, with 512 tokens per row.

    python -m keras_bert_app.cli.pretrain --recipe=original_long_rows --config=base --corpus_dir=CORPUS \\
        --vocab_file=VOCAB --init_checkpoint=RUN_OF_PHASE_1 --workdir=RUN_OF_PHASE_2

All weights come from the first phase. Its position embeddings beyond 128 still have their initial values; this phase
trains them. The optimizer starts from the beginning, with its own warm-up.
Cost: a step has four times the tokens of a step of the first phase. Its attention costs more than four times as much.
The recipe has not been run here at full size. Expected result with --config=tiny after nine minutes of `original` and
one minute of this recipe, one seed: held-out MLM accuracy 0.060, unigram baseline 0.046 (docs/results/pretraining.md).
"""

CONFIG = "base"
MODEL = {}
RUN = {
    "max_seq_length": 512,
    "max_predictions_per_seq": 77,
    "global_batch_size": 256,
    "learning_rate": 5e-5,
    "num_warmup_steps": 1_000,
    "num_train_steps": 100_000,
    "save_checkpoints_steps": 5_000,
    "eval_steps": 10_000,
}
