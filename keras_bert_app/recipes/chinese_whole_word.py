"""Chinese with whole-word masking (Cui et al. 2021): all characters of a word are masked together.

    python -m keras_bert_app.cli.pretrain --recipe=chinese_whole_word --corpus_dir=CORPUS --vocab_file=VOCAB \\
        --lexicon_file=WORDS --workdir=RUN

WORDS is a list of Chinese words, one per line. The longest match from the left is a word. Text with spaces between its
words (prepare_corpus --segmenter=jieba) needs no list: give --masking=segmented instead of --lexicon_file. In a Chinese
vocabulary every character is a piece of its own. Google's whole-word masking would therefore mask single characters.
Cost: as for `original`. The recipe has not been run here at full size.
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
