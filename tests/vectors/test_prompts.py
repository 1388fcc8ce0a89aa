"""Prompts from an export to embed, search, evaluate_search and encode. A swap of the two roles fails these tests."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.prompts import Prompts
from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models, sentence_vectors
from keras_bert_app.export.sentence_vectors import Pooling
from keras_bert_app.interop import own_layout
from keras_bert_app.vectors import embedding, search_evaluation
from keras_bert_app.vectors.search_collections import Collection
from keras_bert_app.vectors.text_embedder import TextEmbedder
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.cli.test_commands import assert_refused
from tests.export.small_model import ONE_LAYER

QUERY, DOCUMENT = "a h h: ", "e f "
TEXTS = ["a b c", "", "h g", "d e f. a", "g h " * 20]
_HOW = Pooling(layer=-1, query_prompt=QUERY, document_prompt=DOCUMENT)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, its export with prompts, and texts. Its name has a space."""
    directory, generator = tmp_path_factory.mktemp("my prompts"), np.random.default_rng(0)
    # The vectors of different texts are far from each other, so that a swap of prompts shows.
    tensors = {
        name: (1.0 if name.endswith("gamma") else generator.normal(0, 0.1 if values.ndim == 1 else 0.5, values.shape))
        + np.zeros_like(values)
        for name, values in ONE_LAYER.tensors.items()
    }
    tensors = {name: values.astype(np.float32) for name, values in tensors.items()}
    own_layout.write(dataclasses.replace(ONE_LAYER, tensors=tensors), str(directory / "model"))
    sentence_vectors.export_embeddings(str(directory / "model"), str(directory / "export"), _HOW, has_litert=True)
    (directory / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return directory


@pytest.fixture(scope="module")
def module(place):
    """The model with prompts, not exported."""
    return sentence_vectors.embedding_module(str(place / "model"), _HOW)[0]


@pytest.fixture(scope="module")
def embed(module):
    """The same with the methods of a SentenceTransformer."""
    return TextEmbedder(embedding.embedder_of_module(module))


@pytest.fixture(scope="module")
def plain(place):
    """A function of texts to the vectors of the model without prompts."""
    module, _ = sentence_vectors.embedding_module(str(place / "model"), Pooling(layer=-1))
    return lambda texts: module.exported["serving_default"](tf.constant(texts))["embedding"].numpy()


@pytest.fixture(scope="module")
def expected(plain):
    """dict role -> the vectors of TEXTS with the prompt of the role before each; "" -> without."""
    prompts = {"": "", "query": QUERY, "document": DOCUMENT}
    return {role: plain([prompt + text for text in TEXTS]) for role, prompt in prompts.items()}


def test_each_role_has_its_prompt_in_the_signatures_and_in_both_runtimes(place, module, expected):
    texts = [text.encode() for text in TEXTS]
    fast = embedding.load_embedder(str(place / "export"))
    signatures = saved_models.load(str(place / "export")).signatures
    for role in ("query", "document"):
        for embed in (fast, embedding.embedder_of_module(module)):
            vectors, truncated = embedding.for_role(embed, role)(texts)
            np.testing.assert_allclose(vectors, expected[role], atol=1e-5)
            assert truncated.tolist() == [False, False, False, False, True]
            np.testing.assert_allclose(embed(texts)[0], expected[""], atol=1e-5)
        outputs = signatures[role](text=tf.constant(TEXTS))
        np.testing.assert_allclose(outputs["embedding"], expected[role], atol=1e-5)
    for one, other in (("query", "document"), ("query", ""), ("document", "")):
        assert np.abs(expected[one] - expected[other]).max() > 0.1
    assert embedding.for_role(fast, "query").num_tokens([b"a"])[0] == 2 + 4 + 1


def test_export_json_and_the_model_card_have_the_prompts(place, module):
    about = json.loads((place / "export" / "1" / "export.json").read_text())
    assert about["prompts"] == {"query": QUERY, "document": DOCUMENT} and about["default_prompt_name"] is None
    assert (about["how"]["query_prompt"], about["how"]["document_prompt"]) == (QUERY, DOCUMENT)
    assert f"prompts query {QUERY!r}, document {DOCUMENT!r}" in (place / "export" / "1" / "README.md").read_text()
    assert {"query", "document"} < about["examples"].keys()


def test_embed_puts_the_prompt_of_a_role_before_each_text_and_says_what_was_left_out(run, place, expected):  # noqa: F811
    def embed(*flags):
        return run("embed", f"--input_file={place}/texts.txt", f"--output_file={place}/x.npy", "--overwrite", *flags)

    for role in ("query", "document"):
        done = embed(f"--saved_model={place}/export", f"--prompt={role}")
        assert done.returncode == 0 and "--prompt" not in done.stdout, done.stderr
        np.testing.assert_allclose(np.load(place / "x.npy"), expected[role], atol=1e-5)
    model = (f"--init_checkpoint={place}/model", "--layer=-1")
    done = embed(*model, f"--query_prompt={QUERY}")
    assert f"has prompts query {QUERY!r}; no prompt was put before the texts; --prompt chooses one" in done.stdout
    np.testing.assert_allclose(np.load(place / "x.npy"), expected[""], atol=1e-5)
    assert_refused(embed(*model, "--prompt=query"), "--prompt=query: ", "has no prompts; leave it out")
    refused = embed(*model, f"--query_prompt={QUERY}", "--prompt=q")
    assert_refused(refused, "--prompt=q: ", "has the prompts document, query; give one of them")
    assert_refused(embed(f"--saved_model={place}/export", "--query_prompt=q"), "--query_prompt goes with --init_check")


def test_search_compares_queries_with_their_prompt_and_texts_with_theirs(run, place, plain, expected):  # noqa: F811
    flags = (f"--saved_model={place}/export", f"--corpus_file={place}/texts.txt", "--output_format=jsonl", "--top_k=5")
    (queries,) = plain([QUERY + "a b"])
    texts = expected["document"]
    cosines = texts @ queries / np.linalg.norm(texts, axis=1) / np.linalg.norm(queries)
    np.save(place / "documents.npy", texts)
    np.save(place / "without.npy", expected[""])
    for more in ([], [f"--vectors={place}/documents.npy"]):
        done = run("search", *flags, *more, "a b")
        assert done.returncode == 0, done.stderr
        found = {near["text_number"] - 1: near["cosine"] for near in json.loads(done.stdout)["nearest"]}
        np.testing.assert_allclose([found[number] for number in range(5)], cosines, atol=1e-5)
    refused = run("search", *flags, f"--vectors={place}/without.npy", "a b")
    assert_refused(refused, "without.npy: vector 1 is not that of text 1", "with this model and --prompt=document")


def test_evaluate_search_ranks_by_vectors_with_the_prompts_of_both_roles(module, plain, tmp_path):
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(list("abcdefgh"), 6)) for _ in range(30)]
    queries = {f"q{n}": " ".join(generator.choice(list("abcdefgh"), 2)) for n in range(9)}
    ids = [f"d{n}" for n in range(30)]
    collection = Collection(ids, texts, queries, {name: {"d0": 1} for name in queries})

    def ranked(of_query, of_text):
        rows = plain([of_text + text for text in texts])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        vectors = plain([of_query + text for text in queries.values()])
        order = np.argsort(-(vectors @ rows.T), axis=1, kind="stable")[:, :10]
        return {name: [ids[place] for place in row] for name, row in zip(queries, order, strict=True)}

    embed = embedding.embedder_of_module(module)
    found = search_evaluation.rankings_of_model(embed, collection, str(tmp_path), 10, sys.stderr)
    assert list(found) == ["float32"] and found["float32"] == ranked(QUERY, DOCUMENT) != ranked(DOCUMENT, QUERY)


def test_encode_takes_a_prompt_by_name_by_role_or_as_text(embed, expected):
    assert embed.prompts == {"query": QUERY, "document": DOCUMENT} and embed.default_prompt_name is None
    for role, prompt in (("query", QUERY), ("document", DOCUMENT)):
        of_role = {"query": embed.encode_query, "document": embed.encode_document}[role]
        for vectors in (
            embed.encode(TEXTS, prompt_name=role),
            embed.encode(TEXTS, prompt=prompt),
            embed.encode(TEXTS, prompt_type=role),
            of_role(TEXTS),
            embed.encode([{"text": TEXTS[:2]}, {"text": TEXTS[2:]}], prompt_type=role, hf_split="test", batch_size=2),
            embed.encode([{"text": text} for text in TEXTS], prompt_type=role),
        ):
            np.testing.assert_allclose(vectors, expected[role], atol=1e-5)
    np.testing.assert_allclose(embed.encode(TEXTS), expected[""], atol=1e-5)
    np.testing.assert_allclose(embed(TEXTS), expected[""], atol=1e-5)
    np.testing.assert_allclose(embed.encode_query(TEXTS, prompt=""), expected[""], atol=1e-5)
    assert not isinstance(embed.encode_query(TEXTS, prompt_name="document"), list)
    np.testing.assert_allclose(embed.encode_query(TEXTS, prompt_name="document"), expected["document"], atol=1e-5)


def test_encode_gives_what_a_sentence_transformer_gives(embed, expected):
    one = embed.encode(TEXTS[0])
    assert one.shape == (33,) and one.dtype == np.float32
    vectors = embed.encode(TEXTS, normalize_embeddings=True, show_progress_bar=True, batch_size=2)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    listed = embed.encode(TEXTS, convert_to_numpy=False, truncate_dim=7, device="cpu")
    assert isinstance(listed, list) and len(listed) == 5
    np.testing.assert_allclose(listed, expected[""][:, :7], atol=1e-5)
    assert embed.encode([]).shape == (0, 33) and embed.get_embedding_dimension() == 33
    assert embed.mteb_model_meta is None  # no mteb is loaded


def test_a_prompt_with_the_name_of_a_task_of_mteb_comes_before_that_of_the_role(module, plain):
    texts = {"query": "a ", "Retrieval-query": "b ", "Retrieval": "c ", "Own": "d "}
    embed = TextEmbedder(embedding.Embedder(module.exported, prompts=Prompts(texts)))

    class Task:
        def __init__(self, name, kind):
            self.name, self.type = name, kind

    for task, role, prompt in (
        (Task("Own", "Retrieval"), "query", "d "),
        (Task("Other", "Retrieval"), "query", "b "),
        (Task("Other", "Retrieval"), "document", "c "),
        (Task("Other", "STS"), "query", "a "),
        (Task("Other", "STS"), None, ""),
    ):
        vectors = embed.encode(["h h"], task_metadata=task, prompt_type=role)
        np.testing.assert_allclose(vectors, plain([prompt + "h h"]), atol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"prompt_name": "x"}, "prompt_name='x': this model has the prompts document, query; give one of them"),
        ({"prompt": 5}, "prompt='5': expected a text"),
        ({"prompt_type": "passage"}, "prompt_type='passage': expected query or document"),
        ({"convert_to_tensor": True}, "convert_to_tensor='True': encode computes convert_to_tensor=False alone"),
        ({"precision": "int8"}, "precision='int8': encode computes precision='float32' alone; leave it out"),
        ({"batchsize": 3}, "batchsize is not an argument of encode: did you mean 'batch_size'"),
        ({"batch_size": 0}, "batch_size=0: expected a whole number from 1"),
        ({"truncate_dim": 34}, "truncate_dim=34: the vectors have 33 numbers"),
        ({"sentences": ["a", None]}, "text 1 is None"),
        ({"sentences": 5}, "texts are 5; expected a string or a list of strings"),
    ],
)
def test_a_wrong_argument_of_encode_is_refused_in_one_line(embed, arguments, message):
    with pytest.raises(ValueError) as refused:
        embed.encode(**{"sentences": ["a"], **arguments})
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_similarity_gives_cosines():
    one, other = [[3.0, 4.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0], [6.0, 8.0]]
    instance = TextEmbedder.__new__(TextEmbedder)
    np.testing.assert_allclose(instance.similarity(one, other), [[0.6, 0.8, 1.0], [0, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(instance.similarity_pairwise(one, other[1:]), [0.8, 0.0], atol=1e-7)
    assert instance.similarity([1.0, 0.0], other).shape == (1, 3)
    with pytest.raises(UserError, match=r"shapes \[2, 2\] and \[1, 3\]; expected vectors of one size"):
        instance.similarity(one, [1.0, 2.0, 3.0])
    with pytest.raises(UserError, match="there are 2 and 3 vectors; expected the same number"):
        instance.similarity_pairwise(one, other)


def test_a_default_prompt_stands_before_texts_without_a_named_prompt_alone(module, plain):
    module = module.rebuild(prompts=Prompts({"query": QUERY, "document": DOCUMENT}, "document"))
    embed = embedding.embedder_of_module(module)
    texts = [text.encode() for text in TEXTS]
    with_prompts = {"": DOCUMENT, "query": QUERY, "document": DOCUMENT}
    for role, prompt in with_prompts.items():
        vectors, _ = (embedding.for_role(embed, role) if role else embed)(texts)
        np.testing.assert_allclose(vectors, plain([prompt + text for text in TEXTS]), atol=1e-5)
    outputs = module.exported["serving_default"](tf.constant(TEXTS))
    np.testing.assert_allclose(outputs["embedding"], plain([DOCUMENT + text for text in TEXTS]), atol=1e-5)
    np.testing.assert_allclose(embed.with_prompt("b ")(texts)[0], plain([f"b {text}" for text in TEXTS]), atol=1e-5)


def test_a_prompt_that_leaves_no_room_is_refused(place):
    with pytest.raises(
        UserError, match="the prompt 'query' has 21 tokens, which leaves no room for a text in rows of 23"
    ):
        sentence_vectors.embedding_module(str(place / "model"), Pooling(layer=-1, query_prompt="a " * 21))
    module, _ = sentence_vectors.embedding_module(str(place / "model"), Pooling(layer=-1, query_prompt="a " * 20))
    assert module.about.prompts == {"query": "a " * 20}
