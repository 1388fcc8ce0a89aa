"""Distillation of vectors: the teacher's vectors, their size for the student, and whole runs."""

import io
import os
import shutil

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.prompts import Prompts
from keras_bert_app.errors import UserError
from keras_bert_app.export.sentence_vectors import Pooling, embedding_module, export_embeddings
from keras_bert_app.interop import load
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.interop.huggingface.sentence_transformers_files import SentenceTransformer
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.task_models import make_task_model
from keras_bert_app.modeling.vector_model import VectorHead
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import registry, vector_teachers
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.vectors.embedding import Embedder
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, VOCABULARY, launched, newest, run_on, weights_of
from tests.tasks.families.test_text_vectors import tokenizer_of_words, write
from tests.training.conftest import two_replicas

WORDS = (*GOOD, *BAD, *FILLERS)
TEXTS = [f"{a} {b} very {c}" for a in WORDS[:8] for b, c in zip(FILLERS[:5], FILLERS[3:], strict=True)]
SCORED = [
    "text_a\ttext_b\tscore",
    *(f"{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(zip(TEXTS, TEXTS[1:], strict=False))),
]
WANTED = {
    "task": "similarity",
    "max_seq_length": 16,
    "num_train_steps": 30,
    "eval_steps": 15,
    "save_checkpoints_steps": 15,
    "keep_checkpoints": 9,
    "learning_rate": 1e-2,
    "bias_correction": True,
    "jit_compile": "none",
    "pooling": "mean",
}


def write_model(directory, config, layout="workdir", seed=0):
    generator = np.random.default_rng(seed)
    model = make_task_model(config, VectorHead())
    tensors = {w.path: generator.normal(0.0, 0.2, w.shape).astype(np.float32) for w in model.weights}
    load.write_weights(Weights(config, tensors, vocabulary=VOCABULARY, origin="a test"), layout, str(directory))
    return str(directory)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A folder of sentence-transformers with vectors of [CLS]. Its name has a space."""
    config = CONFIG.replace(hidden_size=32, num_attention_heads=2)
    directory = write_model(tmp_path_factory.mktemp("models") / "a teacher", config, "huggingface", 5)
    steps = SentenceTransformer("cls", False, 12, "", ())
    sentence_transformers_files.write(directory, steps, 32, config.max_position_embeddings)
    return directory


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "student", CONFIG)


@pytest.fixture(scope="module")
def texts_dir(tmp_path_factory):
    return write(tmp_path_factory.mktemp("texts"), train=["text", *TEXTS, TEXTS[0]], dev=SCORED)


def vectors_of(path, texts, **how):
    return Embedder(embedding_module(path, Pooling(normalize=True, **how))[0].exported)([t.encode() for t in texts])[0]


def data_of(directory, **settings):
    run = FinetuningConfig(data_dir=directory, task="similarity", max_seq_length=16, pooling="mean", **settings)
    run = registry.find("similarity").settled(run)
    return load_data(run, tokenizer_of_words(), ()), run


@pytest.mark.slow
def test_two_replicas_distil_the_weights_of_one(teacher, tmp_path):
    data = write(tmp_path, train=["text", *TEXTS], dev=SCORED)
    without_dropout = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = {**WANTED, "num_train_steps": 3, "eval_steps": 3, "learning_rate": 1e-4, "teacher": teacher}
    settings |= {"vector_loss": "distill", "similarity_metric": "spearman"}
    for name, strategy in (("one", None), ("two", two_replicas())):
        run_on(tmp_path / name, data, without_dropout, strategy=strategy, **settings)
    one, two = (weights_of(newest(str(tmp_path / name))) for name in ("one", "two"))
    assert all(np.abs(tensor - two[path]).max() < 1e-6 for path, tensor in one.items())


def test_the_teachers_vectors_are_those_of_embed(teacher, student, texts_dir):
    data, run = data_of(texts_dir, teacher=teacher)
    assert run.vector_loss == "distill"
    output = io.StringIO()
    found = vector_teachers.vectors(data, run, 32, None, output)
    np.testing.assert_allclose(found, vectors_of(teacher, [*TEXTS, TEXTS[0]]), atol=1e-6)
    assert (
        f"teacher {teacher}: vectors of 32 numbers ([CLS] of the last layer) of {len(TEXTS)} texts" in output.getvalue()
    )
    data, run = data_of(texts_dir, teacher=student)  # a model without files that say how to pool
    expected = vectors_of(student, [*TEXTS, TEXTS[0]], layer=-1, pool_special_tokens=True)
    np.testing.assert_allclose(vector_teachers.vectors(data, run, 22, None, None), expected, atol=1e-6)


def test_a_teacher_whose_folder_cuts_its_vectors_teaches_the_cut_ones(teacher, texts_dir, tmp_path):
    own = shutil.copytree(teacher, tmp_path / "cut")
    steps = SentenceTransformer("cls", False, 12, "", (), truncate_dim=8)
    sentence_transformers_files.write(str(own), steps, 32, 40)
    data, run = data_of(texts_dir, teacher=str(own))
    found = vector_teachers.vectors(data, run, 8, None, output := io.StringIO())
    expected = vectors_of(teacher, [*TEXTS, TEXTS[0]])[:, :8]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert "vectors of 8 numbers" in output.getvalue() and "main directions" not in output.getvalue()


def test_a_teacher_reads_its_own_prompts_and_not_those_of_the_student(teacher, tmp_path):
    own = shutil.copytree(teacher, tmp_path / "with prompts")
    steps = SentenceTransformer("cls", False, 12, "", (), prompts=Prompts({"query": "good ", "document": "bad "}))
    sentence_transformers_files.write(str(own), steps, 32, 40)
    rows = ["text_a\ttext_b", f"{TEXTS[0]}\t{TEXTS[1]}", f"{TEXTS[2]}\t{TEXTS[3]}"]
    student = {"teacher": str(own), "query_prompt": "fine ", "document_prompt": "fine "}
    for train, prompt in ((["text", *TEXTS[:3]], "bad "), (rows, "good ")):
        (folder := tmp_path / prompt.strip()).mkdir()
        data, run = data_of(write(folder, train=train, dev=SCORED), **student)
        texts = [prompt + example.texts[0] for example in data.train_examples]
        found = vector_teachers.vectors(data, run, 32, None, output := io.StringIO())
        np.testing.assert_allclose(found, vectors_of(teacher, texts), atol=1e-6)
        assert "prompts query 'good ', document 'bad '" in output.getvalue()


def test_a_checkpoint_of_a_run_teaches_as_its_run(distilled, texts_dir):
    best = str(checkpoints.best_checkpoints(distilled[0])[-1])
    found = []
    for path in (distilled[0], best):
        data, run = data_of(texts_dir, teacher=path)
        found.append(vector_teachers.vectors(data, run, 22, None, None))
    np.testing.assert_array_equal(*found)


def test_vectors_of_another_size_keep_their_cosines():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(50, 3)) @ generator.normal(size=(3, 9)) + 0.01 * generator.normal(size=(50, 9))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    smaller, share = vector_teachers.of_size(rows, 3)
    assert smaller.shape == (50, 3) and 0.999 < share < 1.0
    np.testing.assert_allclose(smaller @ smaller.T, rows @ rows.T, atol=5e-3)
    np.testing.assert_allclose(np.linalg.norm(smaller, axis=1), 1.0, atol=1e-6)
    larger, share = vector_teachers.of_size(rows, 12)
    assert share == 1.0 and larger.shape == (50, 12)
    np.testing.assert_allclose(larger @ larger.T, rows @ rows.T, atol=1e-6)
    # Two directions of the plane of the rows beat every other choice of two: the sum of squares by hand.
    values = np.linalg.svd(rows.astype(np.float64), compute_uv=False) ** 2
    assert vector_teachers.of_size(rows, 2)[1] == pytest.approx(values[:2].sum() / values.sum())


@pytest.fixture(scope="module")
def distilled(tmp_path_factory, teacher, student, texts_dir):
    """(work directory, output, wanted) of a student with fewer numbers than its teacher."""
    workdir = str(tmp_path_factory.mktemp("distilled") / "run")
    wanted = {**WANTED, "data_dir": texts_dir, "init_checkpoint": student, "teacher": teacher, "vector_loss": "distill"}
    return workdir, launched(workdir, wanted)[1], wanted


def test_a_student_comes_near_its_teacher_and_resumes_bit_for_bit(distilled, teacher, student, texts_dir, tmp_path):
    workdir, output, wanted = distilled
    assert "loss distill: the texts of a row have the vector that the teacher gives the first one" in output
    assert "the 22 main directions of these vectors are learned; they hold " in output
    expected = np.load(f"{workdir}/teacher_logits.npy")[: len(TEXTS)]
    before, after = (
        np.mean(np.sum(vectors_of(path, TEXTS, layer=-1, pool_special_tokens=True) * expected, axis=1))
        for path in (student, workdir)
    )
    assert after > before + 0.2
    part = str(tmp_path / "part")
    shutil.copytree(workdir, part)
    shutil.rmtree(newest(part))
    # A resumed run needs no teacher, because it has the teacher's vectors.
    again = launched(part, {**wanted})[1]
    assert "resumed at step 15" in again and f"teacher {teacher}" not in again
    whole, again = weights_of(newest(workdir)), weights_of(newest(part))
    assert all(np.array_equal(whole[path], again[path]) for path in whole)


def test_a_translation_learns_the_vector_of_its_source(teacher, tmp_path):
    rows = ["text_a\ttext_b", *(f"{text}\t{' '.join(reversed(text.split()))}" for text in TEXTS)]
    data = write(tmp_path, train=rows, dev=rows)
    config = CONFIG.replace(hidden_size=32, num_attention_heads=2)
    start = (None, False, config, VOCABULARY)
    figures, output = launched(tmp_path / "run", {**WANTED, "data_dir": data, "teacher": teacher}, start=start)
    assert "loss distill" in output and "main directions" not in output
    run = FinetunedRun(str(tmp_path / "run"))
    pairs = [Example("", tuple(row.split("\t")), None, "") for row in rows[1:]]
    vectors = np.stack(run.logits(pairs))
    cosines = np.einsum("bgd,bd->bg", vectors, vectors_of(teacher, TEXTS))
    assert cosines.mean() > 0.8 and figures["reported"]["score"] > 0.4


@pytest.mark.slow
def test_a_run_teaches_another_one(distilled, texts_dir):
    data, run = data_of(texts_dir, teacher=distilled[0])
    expected = np.concatenate(FinetunedRun(distilled[0]).logits([Example("", (t,), None, "") for t in TEXTS]))
    found = vector_teachers.vectors(data, run, 22, None, None)
    np.testing.assert_allclose(found[:-1], expected, atol=1e-6)
    assert checkpoints.best_checkpoints(distilled[0])


def test_what_cannot_be_distilled_is_refused_in_one_line(teacher, student, texts_dir, tmp_path):
    def refused(message, directory=texts_dir, **settings):
        with pytest.raises(UserError, match=message):
            data, run = data_of(directory, **settings)
            vector_teachers.vectors(data, run, 22, None, None)

    refused("--vector_loss=distill: there is no --teacher to learn from", vector_loss="distill")
    refused(
        "--teacher=.*: needs --vector_loss=distill and texts, .* --vector_loss is simcse",
        teacher=teacher,
        vector_loss="simcse",
    )
    (tmp_path / "mined").mkdir()
    mined = write(tmp_path / "mined", train=["anchor\tpositive\tnegative", "a\tb\tc"], dev=SCORED)
    refused("column 'negative' has negatives, which a teacher does not use; name", mined, teacher=teacher)
    scored = write(tmp_path, train=SCORED, dev=SCORED)
    refused("needs --vector_loss=distill and texts, .* two texts and a score in each row", scored, teacher=teacher)
    refused("--vector_sizes=.*: has an effect only with --vector_loss=", teacher=teacher, vector_sizes=("8",))
    refused("none", teacher=str(tmp_path / "none"))
    export_embeddings(student, str(tmp_path / "export"))
    for name in ("export", "export/1"):
        refused("is an export; give the model or the run that it was made from", teacher=str(tmp_path / name))
    both = shutil.copytree(teacher, tmp_path / "both")
    steps = SentenceTransformer("cls_mean", False, 12, "", ())
    sentence_transformers_files.write(str(both), steps, 32, 40)
    refused("pools by cls_mean; expected a model that pools by mean, max, cls", teacher=str(both))
    run = FinetuningConfig(task="similarity", data_dir=texts_dir, teacher=teacher, distillation_weight=0.3)
    with pytest.raises(UserError, match="--distillation_weight=0.3: vectors are learned from the teacher alone"):
        registry.find("similarity").check_options(run)
    assert os.path.isdir(teacher)
