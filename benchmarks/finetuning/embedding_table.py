"""Tabulates how well cosines of sentence vectors predict the similarity scores of people in STS-B.

python -m benchmarks.finetuning.embedding_table --init_checkpoint=MODEL --data_dir=glue/STS-B
python -m benchmarks.finetuning.embedding_table --init_checkpoint=MINILM --data_dir=glue/STS-B \\
    --hf_python=HF_ENV/bin/python

The benchmark prints Spearman's correlation on the dev file for all poolings and layers, in Markdown. It also prints two
baselines: the cosine of TF-IDF vectors with weights from the training file, and the same encoder with random weights.

--hf_python is the interpreter of an environment with benchmarks/requirements-hf.txt. With it, the benchmark compares
our mean of the last layer, [CLS] and [SEP] included, with the vectors of transformers, and of sentence-transformers
if it is installed. benchmarks.interop.interop_huggingface says what MINILM is.
"""

import os

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from keras_bert_app.cli.common import app

_INIT_CHECKPOINT = flags.DEFINE_string("init_checkpoint", "", "A model in any layout that convert reads.")
_DATA_DIR = flags.DEFINE_string("data_dir", "", "Folder with STS-B's train.tsv and dev.tsv.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Pairs at a time.", lower_bound=1)
_HF_PYTHON = flags.DEFINE_string("hf_python", "", "Interpreter with transformers; if empty, no vectors are compared.")
_WITH_SPECIAL = "mean, [CLS] and [SEP] too"
_COMPARED = 64  # sentences
_LIMIT = 1e-5


def main(arguments):
    del arguments
    init_checkpoint, data_dir = app.required("init_checkpoint", "data_dir")
    with app.quiet_start():
        from scipy.stats import spearmanr

        from keras_bert_app.config.bert_config import PARTS
        from keras_bert_app.interop import load
        from keras_bert_app.modeling.pretrainer import BertPretrainer
        from keras_bert_app.tasks import registry
        from pipelines.wordpiece.tokenizer import BertTokenizer
    weights, _ = load.load_weights(init_checkpoint, allow_missing=PARTS[1:])
    read = registry.find("sts-b").read
    train, dev = (read(os.path.join(data_dir, name), None, True) for name in ("train.tsv", "dev.tsv"))
    pairs, scores = [(example.text_a, example.text_b) for example in dev], [example.label for example in dev]
    trained, untrained = (BertPretrainer(weights.config, parts=PARTS[:1]) for _ in range(2))
    load.assign(trained, weights)
    tokenizer = BertTokenizer(weights.vocabulary, weights.config.do_lower_case)

    def correlations(model):
        cosines_by_way = cosines(model.encoder, tokenizer, pairs)
        return {way: spearmanr(values, scores).statistic for way, values in cosines_by_way.items()}

    trained_correlations, random_correlations = correlations(trained), correlations(untrained)
    print(table(trained_correlations, weights.config.num_hidden_layers))
    best = max(random_correlations, key=random_correlations.get)
    tf_idf_correlation = spearmanr(tf_idf_cosines(train, pairs), scores).statistic
    print(
        f"\n{len(pairs):,} pairs of STS-B's dev file, {weights.origin}. Baselines: the cosine of TF-IDF vectors has "
        f"{tf_idf_correlation:.4f}; the same encoder with random weights has {random_correlations[best]:.4f} with its "
        f"best pooling and layer ({best[0]}, layer {best[1]})."
    )
    if _HF_PYTHON.value:
        compare(init_checkpoint, [text for pair in pairs[: _COMPARED // 2] for text in pair])


def cosines(encoder, tokenizer, pairs: list[tuple[str, str]]) -> dict:
    """The cosines of all pairs for each pooling and layer. One pass of the encoder gives the states of all layers.

    Args:
        encoder: BertEncoder.
        tokenizer: BertTokenizer.
        pairs: list of (text, text).

    Returns:
        dict. (pooling, layer) -> float array [len(pairs)]. The pooling _WITH_SPECIAL is sentence-transformers' mean.
    """
    import tensorflow as tf

    from keras_bert_app.export import masked_lm_scoring
    from keras_bert_app.export.pooling import POOLINGS, places_of_pieces, pool

    last = encoder.config.num_hidden_layers
    ways = [
        (pooling, layer)
        for pooling in POOLINGS
        if pooling != "first_last"
        for layer in range(last + 1)
        if (pooling, layer) != ("cls", 0)  # before the first attention, [CLS] is the same in every text
    ]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def batch_cosines(texts):
        inputs, _ = masked_lm_scoring.single_rows(
            tokenizer, tokenizer.tokenize(texts), encoder.config.max_position_embeddings
        )
        outputs = encoder(inputs)
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        pieces, all_places = (
            places_of_pieces(inputs["input_word_ids"], inputs["input_mask"], ids)
            for ids in ((tokenizer.cls_id, tokenizer.sep_id), ())
        )
        vectors = {way: pool([states[way[1]]], pieces, way[0]) for way in ways}
        vectors |= {(_WITH_SPECIAL, layer): pool([states[layer]], all_places, "mean") for layer in range(last + 1)}
        vectors["first_last", last] = pool([states[1], states[last]], pieces, "first_last")
        # The batch has the first texts of all pairs, then the second texts.
        sides = {way: tf.split(tf.math.l2_normalize(values, axis=1), 2) for way, values in vectors.items()}
        return {way: tf.reduce_sum(first * second, axis=1) for way, (first, second) in sides.items()}

    batches = {}
    for at in range(0, len(pairs), _BATCH_SIZE.value):
        batch = pairs[at : at + _BATCH_SIZE.value]
        for way, values in batch_cosines([text for texts in zip(*batch, strict=True) for text in texts]).items():
            batches.setdefault(way, []).append(values.numpy())
    return {way: np.concatenate(parts) for way, parts in batches.items()}


def tf_idf_cosines(train: list, pairs: list[tuple[str, str]]) -> np.ndarray:
    """Cosines [len(pairs)] of TF-IDF vectors whose weights come from the examples of the training file.

    Args:
        train: list of examples of the training file.
        pairs: list of (text, text).
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True)
    vectorizer.fit([text for example in train for text in (example.text_a, example.text_b)])
    first, second = (vectorizer.transform(texts) for texts in zip(*pairs, strict=True))
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


def table(scores: dict, num_layers: int) -> str:
    """A table in Markdown with a row for each pooling and a column for each layer.

    Args:
        scores: dict. (pooling, layer) -> correlation.
        num_layers: int. Layers of the encoder.
    """
    heads = ["embeddings", *(f"layer {layer}" for layer in range(1, num_layers + 1))]
    lines = [f"| pooling | {' | '.join(heads)} |", "|---" * (num_layers + 2) + "|"]
    best = max(scores, key=scores.get)
    for pooling in dict.fromkeys(pooling for pooling, _ in scores):
        keys = [(pooling, layer) for layer in range(num_layers + 1)]
        cells = [f"{scores[key]:.4f}" if key in scores else "" for key in keys]
        cells = [f"**{cell}**" if key == best else cell for key, cell in zip(keys, cells, strict=True)]
        lines.append(f"| {pooling} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def compare(init_checkpoint: str, texts: list[str]) -> None:
    """Prints the largest differences from the vectors of transformers and sentence-transformers.

    Args:
        init_checkpoint: str. The model's directory.
        texts: list of str. Texts to embed.

    Raises:
        SystemExit: a difference is above _LIMIT. The exit code is 1.
    """
    from keras_bert_app.export.sentence_vectors import Pooling, embedding_module
    from keras_bert_app.vectors.embedding import Embedder, embed_texts

    module, _ = embedding_module(init_checkpoint, Pooling(layer=-1, normalize=True, pool_special_tokens=True))
    ours, _ = embed_texts(Embedder(module.exported), [text.encode() for text in texts])
    peer = PeerProcess(_HF_PYTHON.value, "interop/peer_huggingface.py", "hf_python", {"transformers": "5.23.0"})
    worst = 0.0
    print()
    for name, vectors in peer.ask(do="embed", directory=init_checkpoint, texts=texts).items():
        difference = float(np.abs(ours - np.array(vectors)).max())
        print(f"{len(texts)} vectors against {name}: largest difference {difference:.1e}")
        worst = np.maximum(worst, difference)  # unlike max, np.maximum keeps nan
    if not worst <= _LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    app.run(main, __doc__)
