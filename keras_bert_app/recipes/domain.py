"""Continued pre-training of a trained model on the text of a domain (Gururangan et al. 2020, "DAPT").

    python -m keras_bert_app.cli.pretrain --recipe=domain --init_checkpoint=RUN --input_files='texts/*' \\
        --workdir=RUN_ON_DOMAIN

Two optional commands first add words of the domain to the vocabulary. Then use WITH_WORDS instead of RUN:

    python -m keras_bert_app.cli.extend_vocab --vocab_file=RUN/vocab.txt --input_files='texts/*' \\
        --output_file=extended.txt
    python -m keras_bert_app.cli.convert --input=RUN --vocab_file=extended.txt --to=workdir --output=WITH_WORDS

The peak learning rate is half that of `original`. Whole words are masked, because the words of a domain consist of many
pieces. The vocabulary must be that of --init_checkpoint.
Cost: 12,500 steps, as in the paper. The steps of the paper have 2,048 rows of 512 tokens. The recipe has not been run
here at that length. A run here continued a mini model, trained on an encyclopedia, on medical text: 405 steps of 16
rows, a rate of 2e-4, one seed. The held-out MLM accuracy rose from 0.122 to 0.136 (docs/results/pretraining.md).
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
