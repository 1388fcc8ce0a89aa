"""Several languages in one model (M-BERT).

Large languages have a smaller share of the examples than of the texts. Small languages have a larger share.

    python -m keras_bert_app.cli.learn_vocab --input_files='en/*,de/*,zh/*' --vocab_size=119547 --do_lower_case=false \\
        --vocab_file=VOCAB
    python -m keras_bert_app.cli.pretrain --recipe=multilingual --corpus_dir=EN,DE,ZH --vocab_file=VOCAB --workdir=RUN

Make one corpus for each language with prepare_corpus. `pretrain` prints the share of each language in the examples.
Cost: as for `original`. The recipe has not been run here at full size.
"""

CONFIG = "base"
MODEL = {"do_lower_case": False}
RUN = {
    "sampling_exponent": 0.7,
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "global_batch_size": 256,
    "learning_rate": 1e-4,
    "num_warmup_steps": 10_000,
    "num_train_steps": 900_000,
    "save_checkpoints_steps": 10_000,
    "eval_steps": 50_000,
}
