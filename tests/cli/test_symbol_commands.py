"""The road of a text of symbols through the commands: vocabulary, corpus, training, answers, export."""

import collections
import json
import random
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.training import pretraining_heldout, vocabulary_fit
from pipelines.corpus.manifest import load_manifest, shard_paths
from pipelines.wordpiece.symbols import SymbolTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, load_vocabulary

CODES = [f"{letter}{number}.{number % 7}" for letter in "EI" for number in range(10, 20)]
CONFIG = {
    "tokenizer": "symbols",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}


TEXTS = [" ".join(CODES[2:8]), " ".join(CODES[12:18])]
TOKENIZER = SymbolTokenizer(f"{'|'.join(SPECIAL_PIECES)}|A|".replace("|", "\n").encode())


def answer_of(done):
    """The label that predict or ask printed for one text."""
    assert done.returncode == 0, done.stderr
    label, *_ = re.findall(r"^  ([EI])\b", done.stdout, re.MULTILINE)
    return label


def visits(draw):
    """The lines of a patient: a visit with some codes of one letter in each line."""
    letter = draw.choice("EI")
    codes = [code for code in CODES if code.startswith(letter)]
    return [" ".join(draw.sample(codes, draw.randint(1, 4))) for _ in range(draw.randint(1, 5))]


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """A directory with visits.txt, the same patients in visits.jsonl, and labelled examples."""
    directory, draw = tmp_path_factory.mktemp("my visits"), random.Random(1)
    documents = [visits(draw) for _ in range(150)]
    documents.append(documents[0])  # two patients with equal visits are two patients
    (directory / "visits.txt").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n")
    (directory / "visits.jsonl").write_text("".join(json.dumps({"codes": lines}) + "\n" for lines in documents))
    for split, number in (("train", 160), ("dev", 20)):
        lines = (" ".join(visits(draw)) for _ in range(number))
        (directory / f"{split}.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t{line[0]}\n" for line in lines))
    (directory / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 5 + len(CODES)}))
    (directory / "num_documents").write_text(str(len(documents)))
    return directory


@pytest.fixture
def vocab_file(run, patients):
    path = patients / "codes.txt"
    if not path.exists():
        done = run(
            "learn_vocab", "--tokenizer=symbols", f"--input_files={patients / 'visits.txt'}", f"--vocab_file={path}"
        )
        assert done.returncode == 0 and f"{len(CODES)} symbols and 5 special pieces" in done.stdout, done.stderr
    return path


@pytest.fixture
def trained(run, patients, vocab_file):
    """The work directory of a pre-training of two steps."""
    workdir = patients / "run"
    if not workdir.exists():
        done = run(
            "pretrain",
            f"--config={patients / 'config.json'}",
            f"--input_files={patients / 'visits.txt'}",
            f"--vocab_file={vocab_file}",
            "--sentence_objective=none",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            "--global_batch_size=8",
            "--num_train_steps=2",
            "--jit_compile=none",
            f"--workdir={workdir}",
        )
        assert done.returncode == 0, done.stderr
    return workdir


def documents_of(directory, split):
    shards = shard_paths(directory, load_manifest(directory), split)
    return [record.decode() for record in tf.data.TFRecordDataset(shards).as_numpy_iterator()] if shards else []


def test_the_vocabulary_is_that_of_the_text_and_min_count_leaves_rare_symbols_out(run, patients, vocab_file, tmp_path):
    assert sorted(load_vocabulary(vocab_file)[5:]) == sorted(CODES)
    counts = collections.Counter((patients / "visits.txt").read_text().split())
    least = sorted(counts.values())[len(counts) // 2]
    expected = {code for code, count in counts.items() if count >= least}
    done = run(
        "learn_vocab",
        "--tokenizer=symbols",
        f"--input_files={patients / 'visits.jsonl'}",
        "--text_field=codes",
        f"--min_count={least}",
        f"--vocab_file={tmp_path / 'codes.txt'}",
    )
    kept = load_vocabulary(tmp_path / "codes.txt")[5:]
    assert set(kept) == expected < set(CODES)
    assert f"{len(CODES) - len(kept)} other symbols" in done.stdout and "are [UNK]" in done.stdout


@pytest.mark.parametrize(
    "flag, words",
    [
        ("--do_lower_case", "--do_lower_case: symbols stay as they are; leave"),
        ("--vocab_size=5", "has no room"),
        ("--min_count=9999999", "give a lower --min_count"),
    ],
)
def test_learn_vocab_refuses_flags_without_a_meaning_for_symbols_in_one_line(run, patients, tmp_path, flag, words):
    source = f"--input_files={patients / 'visits.txt'}"
    done = run("learn_vocab", "--tokenizer=symbols", source, f"--vocab_file={tmp_path / 'v.txt'}", flag)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    done = run("learn_vocab", source, f"--vocab_file={tmp_path / 'v.txt'}", "--min_count=2")
    assert done.returncode == 2 and "leave it out, or give --tokenizer=symbols" in done.stderr


def test_a_corpus_of_symbols_keeps_every_document_and_every_line(run, patients, tmp_path):
    kept = {}
    for name, flags in (("txt", ()), ("jsonl", ("--text_field=codes",))):
        done = run(
            "prepare_corpus",
            "--input_format=symbols",
            f"--input_files={patients / f'visits.{name}'}",
            f"--output_dir={tmp_path / name}",
            "--holdout_fraction=0.2",
            *flags,
        )
        assert done.returncode == 0, done.stderr
        train, heldout = (documents_of(str(tmp_path / name), split) for split in ("train", "heldout"))
        assert heldout and any("\n" not in document for document in heldout)
        manifest = load_manifest(str(tmp_path / name))
        num_symbols = sum(manifest[split]["words"] for split in ("train", "heldout"))
        assert num_symbols == sum(len(document.split()) for document in train + heldout)
        kept[name] = sorted(train + heldout)
    expected = (patients / "visits.txt").read_text().strip().split("\n\n")
    assert kept["txt"] == kept["jsonl"] == sorted(expected)
    assert len(expected) == int((patients / "num_documents").read_text())


def test_a_run_on_symbols_goes_on_and_its_model_is_that_of_transformers_with_the_same_ids(run, trained, tmp_path):
    config = json.loads((trained / "config.json").read_text())
    assert (config["tokenizer"], config["do_lower_case"]) == ("symbols", False)
    done = run("pretrain", f"--workdir={trained}", "--num_train_steps=3")
    assert done.returncode == 0, done.stderr
    done = run("convert", f"--input={trained}", "--to=huggingface", f"--output={tmp_path / 'hf'}")
    assert done.returncode == 0, done.stderr
    import tokenizers

    fast = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    ours = SymbolTokenizer(str(trained / "vocab.txt"))
    text = f"{CODES[3]}  {CODES[12]}\t{CODES[0].lower()} new"
    assert fast.encode(text).ids[1:-1] == ours.tokenize(text).numpy().tolist()
    weights, _ = load.load_weights(str(tmp_path / "hf"), allow_missing=("pooler", "next_sentence"))
    assert weights.config.tokenizer == "symbols" and weights.vocabulary == (trained / "vocab.txt").read_bytes()
    done = run("convert", f"--input={trained}", "--to=google_tf1", f"--output={tmp_path / 'google'}")
    assert done.returncode == 2 and "google_tf1 knows only WordPiece; write --to=huggingface" in done.stderr


def test_symbols_are_filled_in_fine_tuned_predicted_and_exported(run, patients, trained, tmp_path):
    assert run("export", f"--workdir={trained}", f"--export_dir={tmp_path / 'pretrained'}").returncode == 0
    done = run("fill_mask", f"--saved_model={tmp_path / 'pretrained'}", f"{CODES[0]} [MASK] {CODES[1]}")
    assert done.returncode == 0 and sum(code in done.stdout for code in CODES) > 2, done.stderr
    done = run(
        "finetune",
        "--task=classification",
        f"--data_dir={patients}",
        f"--init_checkpoint={trained}",
        "--num_train_epochs=20",
        "--learning_rate=1e-2",
        "--pooling=mean",
        "--jit_compile=none",
        "--length_buckets=false",
        "--max_seq_length=32",
        f"--workdir={tmp_path / 'task'}",
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "task" / "results.json").read_text())
    assert results["last"]["score"] == 1.0  # the letter of the codes is the label
    answers = [answer_of(run("predict", f"--workdir={tmp_path / 'task'}", "--text", text)) for text in TEXTS]
    assert answers == ["E", "I"]
    done = run("export", f"--workdir={tmp_path / 'task'}", f"--export_dir={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    assert [answer_of(run("ask", f"--saved_model={tmp_path / 'out'}", "--text", text)) for text in TEXTS] == answers


@pytest.mark.slow
def test_a_language_model_is_tuned_on_the_lines_of_a_task_as_they_stand(run, patients, trained, tmp_path):
    done = run(
        "finetune",
        "--task=classification",
        f"--data_dir={patients}",
        f"--init_checkpoint={trained}",
        "--mlm_tuning_steps=1",
        "--num_train_steps=1",
        "--jit_compile=none",
        "--max_seq_length=32",
        f"--workdir={tmp_path / 'task'}",
    )
    assert done.returncode == 0, done.stderr
    (texts,) = (tmp_path / "task").rglob("texts.txt")
    lines = [line for line in texts.read_text().splitlines() if line]
    assert lines == [line.split("\t")[0] for line in (patients / "train.tsv").read_text().splitlines()[1:]]
    manifest = load_manifest(str(next(texts.parent.rglob("manifest.json")).parent))
    assert (manifest["input_format"], manifest["dedup"]) == ("symbols", "none")


def test_a_gpt_of_symbols_goes_to_transformers_and_back(run, patients, vocab_file, tmp_path):
    config = BertConfig.from_dict({**CONFIG, "vocab_size": 5 + len(CODES), "architecture": "gpt"})
    tensors = {path: np.full(shape, 0.5, np.float32) for path, shape in shapes(config).items()}
    weights = Weights(config, tensors, vocabulary=vocab_file.read_bytes(), origin="random")
    load.write_weights(weights, "gpt2", str(tmp_path / "gpt2"))
    back, _ = load.load_weights(str(tmp_path / "gpt2"))
    assert (back.config.tokenizer, back.vocabulary) == ("symbols", weights.vocabulary)


def test_held_out_lines_of_several_corpora_stay(patients, tmp_path):
    manifests = {name: {"input_format": "symbols", "train": {}, "heldout": {}} for name in ("a", "b")}
    pretraining_heldout.keep_apart(str(tmp_path), manifests)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content, flags, words",
    [
        ("\n \n", (), "no symbol in 1 file"),
        ('{"text": []}\n', (), "no symbol in 1 file"),
        ('{"text": ["A", 5]}\n', (), "expected a string, or a list of strings"),
        ("A B\n", ("--segmenter=jieba",), "would cut symbols"),
    ],
)
def test_a_corpus_without_a_symbol_is_refused_in_one_line(run, tmp_path, content, flags, words):
    (tmp_path / "text").write_text(content)
    files = f"--input_files={tmp_path / 'text'}", f"--output_dir={tmp_path / 'out'}"
    done = run("prepare_corpus", "--input_format=symbols", *files, *flags)
    assert done.returncode == 2 and words in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: ") and "Traceback" not in done.stderr


def test_flags_that_would_change_symbols_are_refused_and_another_corpus_is_named(run, patients, vocab_file, tmp_path):
    common = (f"--config={patients / 'config.json'}", f"--vocab_file={vocab_file}", f"--workdir={tmp_path / 'run'}")
    text = f"--input_files={patients / 'visits.txt'}"
    done = run("pretrain", *common, text, "--input_format=documents")
    assert done.returncode == 2 and "--input_format=documents: would change lines of symbols" in done.stderr
    for verb, flags in (("pretrain", (*common, text)), ("tokenize", ("--tokenizer=symbols", common[1], "A"))):
        done = run(verb, *flags, "--do_lower_case")
        assert done.returncode == 2 and "--do_lower_case: symbols stay as they are" in done.stderr
    lines = vocabulary_fit.check_corpora({"corpus": {"input_format": "auto", "train": {"shards": []}}}, TOKENIZER)
    assert lines == [
        "corpus: was prepared with --input_format=auto, so equal documents were dropped, and lines may have been "
        "split; prepare symbols with --input_format=symbols"
    ]


def test_the_places_of_symbols_are_printed(run, vocab_file):
    done = run("tokenize", "--tokenizer=symbols", f"--vocab_file={vocab_file}", f"{CODES[0]} x {CODES[1]}")
    rows = [line.split() for line in done.stdout.strip().splitlines()[-3:]]
    assert [row[1:4] for row in rows] == [
        [CODES[0], "0-5", "0-5"],
        ["[UNK]", "6-7", "6-7"],
        [CODES[1], "8-13", "8-13"],
    ]
