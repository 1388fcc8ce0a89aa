"""Chinese with whole words masked (Cui et al. 2021): a word's characters are hidden together.

    python -m keras_bert_app.cli.pretrain --recipe=chinese_whole_word --corpus_dir=CORPUS --vocab_file=VOCAB \\
        --lexicon_file=WORDS --workdir=RUN

WORDS is a list of Chinese words, one a line; the longest one from the left is taken. Text that a segmenter has cut at
spaces needs no list: --masking=segmented --lexicon_file=. A character is a piece of its own in a Chinese vocabulary, so that
"whole word" as Google has it would hide single characters.
Cost: as `original`. Not run here at full size.
"""

CONFIG = "base"
MODEL = {}
RUN = {
    "masking": "lexicon",
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "global_batch_size": 256,
    "learning_rate": 1e-4,
    "num_warmup_steps": 10_000,
    "num_train_steps": 900_000,
    "save_checkpoints_steps": 10_000,
    "eval_steps": 50_000,
}
