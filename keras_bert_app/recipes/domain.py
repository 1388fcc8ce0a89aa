"""Continued pre-training of a trained model on the text of a domain (Gururangan et al. 2020, "DAPT").

    python -m keras_bert_app.cli.pretrain --recipe=domain --config=RUN/config.json --vocab_file=RUN/vocab.txt \\
        --init_checkpoint=RUN --input_files='texts/*' --workdir=RUN_ON_DOMAIN

Two optional commands add words of the domain to the vocabulary first. Use WITH_WORDS in place of RUN afterwards:

    python -m keras_bert_app.cli.extend_vocab --vocab_file=RUN/vocab.txt --input_files='texts/*' \\
        --output_file=extended.txt
    python -m keras_bert_app.cli.convert --input=RUN --vocab_file=extended.txt --to=workdir --output=WITH_WORDS

The peak learning rate is half that of `original`. Whole words are masked, because the words of a domain consist of many
pieces. The vocabulary must be that of --init_checkpoint.
Cost: 12,500 steps, as in the paper, which has 2,048 rows of 512 tokens. It has not been run here at that length.
Seen with a mini that went from encyclopedia to medicine in 405 steps of 16 rows at a rate of 2e-4, one seed: held-out
MLM accuracy 0.122 before, 0.136 after (docs/results/pretraining.md).
"""

CONFIG = "base"
MODEL = {}
RUN = {
    "learning_rate": 5e-5,
    "num_warmup_steps": 750,
    "num_train_steps": 12_500,
    "global_batch_size": 256,
    "masking": "whole_word",
    "save_checkpoints_steps": 500,
    "eval_steps": 1_000,
}
