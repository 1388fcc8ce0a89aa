"""The command mine_negatives: pairs keep what they have, and get texts of other pairs as negatives."""

import gzip
import json

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.random_models import write_random_model

WORDS = "cat dog bird stone river rain bread salt hill table".split()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The directory of a model with random weights. Its name has a space."""
    return write_random_model(tmp_path_factory.mktemp("models") / "a model", WORDS)


def test_the_output_has_all_pairs_and_their_own_negatives_and_is_read_by_finetune(tmp_path, model, run):  # noqa: F811
    rows = [
        f"{a} {b}\t{b} {a}\t{'' if n % 2 else 'own negative'}"
        for n, (a, b) in enumerate(zip(WORDS[:-1], WORDS[1:], strict=True))
    ]
    table, output = tmp_path / "my pairs.tsv", tmp_path / "out" / "mined.jsonl"
    table.write_text("\n".join(["question\tanswer\tnegative", *rows]) + "\n")
    with gzip.open(tmp_path / "more.txt.gz", "wt") as file:
        file.write("table\n\nsalt rain\n")
    flags = (f"--saved_model={model}", f"--input_file={table}", f"--corpus_file={tmp_path}/more.txt.gz")
    done = run("mine_negatives", *flags, f"--output_file={output}", "--range_min=1", "--range_max=8", "--margin=-2")
    assert done.returncode == 0, done.stderr
    assert "9 pairs, 11 candidates" in done.stdout and "9 pairs: 9 have 3 new negatives" in done.stdout
    mined = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["anchor"], row["positive"]) for row in mined] == [tuple(row.split("\t")[:2]) for row in rows]
    assert all(("own negative" in row["negative"]) == (n % 2 == 0) for n, row in enumerate(mined))
    assert all(row["positive"] not in row["negative"] and len(set(row["negative"])) >= 3 for row in mined)
    examples = registry.find("similarity").read_file(str(output), FinetuningConfig(task="similarity"))
    assert [len(example.texts) for example in examples] == [6 - n % 2 for n in range(9)]
    done = run("mine_negatives", *flags, f"--output_file={output}", "--range_min=40", "--overwrite")
    assert "9 have none" in done.stdout and "warning: no text is a negative; give a smaller --range_min" in done.stdout


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--input_file=none.tsv",), "none.tsv: there is no such file; give a table of pairs"),
        (("--input_file=scored.tsv",), "scored.tsv: has two texts and a score in each row; expected an anchor, its"),
        (("--input_file=labelled.tsv",), "labelled.tsv: has a text and a label in each row; expected an anchor, its"),
        (("--input_file=texts.tsv",), "texts.tsv: has one text in each row; expected an anchor, its positive"),
        (("--input_file=empty.tsv",), "empty.tsv: holds no example of task similarity"),
        (("--input_file=pairs.tsv", "--seed=3"), "--seed=3: has a meaning only with --sampling=random; leave it out"),
        (("--input_file=pairs.tsv", "--text_field=a"), "--text_field=a: has a meaning only with --corpus_file"),
        (("--input_file=pairs.tsv", "--range_max=10"), "--range_max=10: is not above --range_min=10"),
        (("--input_file=pairs.tsv", "--output_file=out.tsv"), "out.tsv: give a name that ends in .jsonl"),
        (("--input_file=pairs.tsv", "--corpus_file=none.txt"), "--corpus_file=none.txt: there is no such file"),
        (("--input_file=x.jsonl", "--output_file=x.jsonl"), "--output_file=x.jsonl: is the --input_file, whose texts"),
        (("--input_file=pairs.tsv", "--output_file=x.jsonl"), "x.jsonl is there already; --overwrite replaces it"),
        (("--input_file=pairs.tsv", "--saved_model=none"), "none"),
    ],
)
def test_what_cannot_be_mined_is_refused_in_one_line(tmp_path, model, run, monkeypatch, flags, message):  # noqa: F811
    files = {
        "scored.tsv": "text_a\ttext_b\tscore\na\tb\t1\n",
        "labelled.tsv": "text\tlabel\na\tb\n",
        "texts.tsv": "text\na\n",
        "empty.tsv": "",
        "pairs.tsv": "anchor\tpositive\ncat\tdog\n",
        "x.jsonl": '{"anchor": "cat", "positive": "dog"}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    done = run("mine_negatives", f"--saved_model={model}", "--output_file=out.jsonl", *flags)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out.jsonl").exists()
