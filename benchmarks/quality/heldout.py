"""Evaluates all models in the same way: with BERT's own masking of the held-out documents of a corpus."""

from keras_bert_app.cli.common import app

_SEED = 777


def evaluate(model_dir: str, corpus_dir: str, vocab_file: str, documents_file: str = "") -> dict[str, float]:
    """Evaluates a model on held-out documents: 15 % of the pieces masked, in rows of 128.

    Models with a next-sentence head are also evaluated on next-sentence pairs.

    Args:
        model_dir: str. The model, in any layout that convert reads.
        corpus_dir: str. Directory that prepare_corpus wrote.
        vocab_file: str. The model's vocabulary.
        documents_file: str. Text with one sentence a line and blank lines between documents (choosing_documents), to
            evaluate on these documents; "" for all held-out documents of the corpus.

    Returns:
        dict. Figures under the names of pretrain's evaluations.
    """
    with app.quiet_start():
        import tensorflow as tf

        from keras_bert_app.config.pretraining_config import PretrainingConfig
        from keras_bert_app.interop.load import load_pretrained
        from keras_bert_app.training import evaluation, forward, pretraining_data
        from keras_bert_app.training.losses import PretrainingObjective
        from pipelines.corpus import preparation
        from pipelines.wordpiece.tokenizer import BertTokenizer
    model = load_pretrained(model_dir, allow_missing=("pooler", "next_sentence"))
    tokenizer = BertTokenizer(vocab_file, model.config.do_lower_case)
    run = PretrainingConfig(max_seq_length=128, global_batch_size=32, seed=_SEED).resolved()
    if documents_file:
        shards = [documents_file]
    else:
        shards = preparation.shard_paths(corpus_dir, preparation.load_manifest(corpus_dir), "heldout")
    dataset = pretraining_data.heldout_dataset(
        run, shards, tokenizer, pretraining_data.example_arguments(run, tokenizer, "")
    )
    objective = PretrainingObjective("nsp" if "next_sentence" in model.parts else "none")
    call = forward.make_evaluation_call(tf.distribute.get_strategy(), model, objective)
    return evaluation.evaluate(call, objective, dataset, model.config.vocab_size)
