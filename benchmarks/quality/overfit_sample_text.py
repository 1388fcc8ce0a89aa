"""Runs google-research/bert's smoke test: a tiny model must learn a small text by heart.

python -m benchmarks.quality.overfit_sample_text --input_files=sample_text.txt \\
    --workdir=runs/overfit

The benchmark trains config tiny without dropout on the whole text, with new pairs and masks in every epoch. It then
evaluates the model on the same text with pairs and masks of other seeds. docs/results/pretraining.md has a recorded
run. A run that was stopped continues.
"""

import os

from absl import flags

from keras_bert_app.cli.common import app

_INPUT_FILES = flags.DEFINE_list("input_files", [], "The text, in any layout that pretrain reads.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/overfit", "Directory of the run.")
_STEPS = flags.DEFINE_integer("num_train_steps", 7000, "Number of training steps.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 700, "Entries of the vocabulary that is learned from the text.")
_EVALUATION_SEEDS = range(1, 41)


def main(arguments):
    del arguments
    app.required("input_files")
    with app.quiet_start():
        import tensorflow as tf

        from keras_bert_app.config.bert_config import BertConfig
        from keras_bert_app.config.pretraining_config import PretrainingConfig
        from keras_bert_app.interop.load import load_pretrained
        from keras_bert_app.training import evaluation, forward, pretraining_corpora, pretraining_start
        from keras_bert_app.training.losses import PretrainingObjective
        from pipelines import pretraining_dataset
        from pipelines.corpus import preparation
        from pipelines.text.readers import read_documents
        from pipelines.text.text_files import expand_files
        from pipelines.wordpiece import vocabulary, vocabulary_learning
        from pipelines.wordpiece.tokenizer import BertTokenizer
    vocab_file = os.path.join(_WORKDIR.value, "learned_vocab.txt")
    if not os.path.exists(vocab_file):
        os.makedirs(_WORKDIR.value, exist_ok=True)
        pieces, _ = vocabulary_learning.learn_vocabulary(
            read_documents(expand_files(_INPUT_FILES.value)), _VOCAB_SIZE.value
        )
        vocabulary.write_vocabulary(pieces, vocab_file)
    model_config = BertConfig.of_size(
        "tiny",
        vocab_size=_VOCAB_SIZE.value,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.08,
    )
    run = PretrainingConfig(
        input_files=_INPUT_FILES.value,
        holdout_fraction=0.0,
        max_seq_length=128,
        global_batch_size=16,
        learning_rate=2e-3,
        num_train_steps=_STEPS.value,
        log_steps=500,
        weight_decay_rate=0.0,
        jit_compile="parts",
    ).resolved()
    run_dir = os.path.join(_WORKDIR.value, "run")
    pretraining_start.launch(run_dir, model_config, run, vocabulary.read_bytes(vocab_file))

    model = load_pretrained(run_dir)
    objective = PretrainingObjective()
    call = forward.make_evaluation_call(tf.distribute.get_strategy(), model, objective)
    tokenizer = BertTokenizer(vocab_file)
    (corpus_dir,) = pretraining_corpora.corpus_directories(run_dir, run)
    shards = preparation.shard_paths(corpus_dir, preparation.load_manifest(corpus_dir), "train")
    passes = [
        pretraining_dataset(shards, tokenizer, global_batch_size=16, seed=seed, epochs=1) for seed in _EVALUATION_SEEDS
    ]
    dataset = passes[0]
    for one_pass in passes[1:]:
        dataset = dataset.concatenate(one_pass)
    print("on the training text, with pairs and masks of other seeds:")
    for line in evaluation.summary(evaluation.evaluate(call, objective, dataset, model.config.vocab_size)):
        print(line.replace("held-out ", ""))


if __name__ == "__main__":
    app.run(main, __doc__)
