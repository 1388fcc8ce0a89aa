"""More pre-training on the text of a domain, from a model that is trained already (Gururangan et al. 2020, "DAPT").

    python -m keras_bert_app.cli.extend_vocab --vocab_file=RUN/vocab.txt --input_files='texts/*' --output_file=extended.txt   # optional: words
    python -m keras_bert_app.cli.convert --input=RUN --vocab_file=extended.txt --to=workdir --output=WITH_WORDS        # of the domain; then WITH_WORDS for RUN
    python -m keras_bert_app.cli.pretrain --recipe=domain --config=RUN/config.json --vocab_file=RUN/vocab.txt \\
        --init_checkpoint=RUN --input_files='texts/*' --workdir=RUN_ON_DOMAIN

A low rate and a short warm-up keep what is known; whole words are masked, since a domain's words are cut into many pieces.
The vocabulary must be that of --init_checkpoint.
Cost: 12,500 steps, as in the paper, which takes 2,048 rows of 512 tokens. Not run here at that length. Expect of a mini that 405 steps
of 16 rows take from encyclopedia to medicine: held-out MLM accuracy 0.122 -> 0.136 (BUILD.md).
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
