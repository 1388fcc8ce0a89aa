"""Evaluates all models in the same way on the held-out documents of a corpus, BERTs with BERT's own masking."""

import functools

from keras_bert_app.cli.common import app

_SEED = 777


def evaluate(model_dir: str, corpus_dir: str, vocab_file: str, documents_file: str = "") -> dict[str, float]:
    """Evaluates a model on held-out documents, in rows of 128.

    A BERT predicts masked pieces, 15 % of all. If it has a next-sentence head, it is also evaluated on next-sentence
    pairs. A causal language model predicts every piece.

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
        from keras_bert_app.training.language_model_objective import LanguageModelObjective
        from keras_bert_app.training.losses import PretrainingObjective
        from pipelines.corpus import preparation
        from pipelines.wordpiece.tokenizer import BertTokenizer
    model = load_pretrained(model_dir, allow_missing=("pooler", "next_sentence"))
    tokenizer = BertTokenizer(vocab_file, model.config.do_lower_case)
    run = PretrainingConfig(
        max_seq_length=128, global_batch_size=32, seed=_SEED, language_model=model.config.language_model
    ).resolved()
    manifest = preparation.load_manifest(corpus_dir)
    shards = [documents_file] if documents_file else preparation.shard_paths(corpus_dir, manifest, "heldout")
    examples = pretraining_data.example_arguments(run, tokenizer, "")
    dataset = pretraining_data.heldout_dataset(run, shards, tokenizer, examples)
    if model.config.language_model == "causal":
        trained = [preparation.shard_paths(corpus_dir, manifest, "train")]
        objective = LanguageModelObjective(
            functools.cache(lambda: pretraining_data.ngram_counts(trained, tokenizer, examples))
        )
    else:
        objective = PretrainingObjective("nsp" if "next_sentence" in model.parts else "none")
    call = forward.make_evaluation_call(tf.distribute.get_strategy(), model, objective)
    return evaluation.evaluate(call, objective, dataset, model.config.vocab_size)
