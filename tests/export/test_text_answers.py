"""The export of a text-to-text run writes the texts of predict and their alignments, in a fresh process."""

import json
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned_export, raw_answers, saved_models
from keras_bert_app.export.text_answers import TextToTextModule
from keras_bert_app.modeling.text_to_text_model import TextToTextModel
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.export.test_export import run_python
from tests.tasks.families.test_text_to_text import (  # noqa: F401  fixtures
    CONFIG,
    SETTINGS,
    VOCABULARY,
    parallel_dir,
    translator,
)

# Prints the outputs of both signatures for all texts together, then the alignments of each text alone.
_ASK = """
import json, sys
import tensorflow as tf
import tensorflow_text
model, texts = tf.saved_model.load(sys.argv[1]), json.loads(sys.argv[2])
def ask(name, texts):
    outputs = model.signatures[name](text=tf.constant(texts))
    return {name: values.numpy().tolist() for name, values in outputs.items()}
answers = [ask("serving_default", texts), ask("alignments", texts), *(ask("alignments", [text]) for text in texts)]
assert not any(name.startswith(("keras_bert_app", "pipelines")) for name in sys.modules)
print(json.dumps(answers, default=bytes.decode))
"""
TEXTS = ["zwei eins drei.", "", "vier " * 20]


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):  # noqa: F811
    """(FinetunedRun, directory of the raw-text export, directory of the ids export, answers of a fresh process)."""
    root = tmp_path_factory.mktemp("exported")
    finetuned_export.export_finetuned(translator[0], str(root / "written"))
    shutil.move(root / "written", root / "elsewhere")
    answers = json.loads(run_python(_ASK, str(root / "elsewhere/1"), json.dumps(TEXTS)))
    return FinetunedRun(translator[0]), root / "elsewhere/1", root / "written_ids", answers


def test_a_fresh_process_writes_the_texts_of_predict_without_this_package(exported, tmp_path):
    finetuned, _, ids_export, (outputs, *_) = exported
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    finetuned.predict(str(tmp_path / "new.txt"), str(tmp_path / "out"))
    expected = [json.loads(line) for line in (tmp_path / "out/probabilities.jsonl").read_text().splitlines()]
    assert outputs["texts"] == [entry["texts"] for entry in expected]
    np.testing.assert_allclose(outputs["scores"], [entry["scores"] for entry in expected], atol=2e-6)

    ids = saved_models.load(str(ids_export)).signatures["serving_default"]
    encoded = finetuned.tokenizer.pack(TEXTS[:1], seq_length=11)
    answer = ids(**{name: tf.constant(values) for name, values in encoded.items()})
    pieces = [finetuned.tokenizer.vocabulary[number] for number in answer["target_word_ids"][0, 0].numpy() if number]
    assert pieces == ["two", "one", "three", ".", "[SEP]"]


def test_alignments_are_the_attention_of_the_model_to_the_text_when_it_reads_what_it_wrote(exported):
    finetuned, _, _, (outputs, aligned, *alone) = exported
    assert aligned["texts"] == [texts[0] for texts in outputs["texts"]]
    assert aligned["truncated"] == outputs["truncated"] == [False, False, True]
    number_of = {piece: number for number, piece in enumerate(finetuned.tokenizer.vocabulary)} | {"": 0}
    source, target = (np.vectorize(number_of.get)(aligned[f"{side}_pieces"]) for side in ("source", "target"))
    inputs = finetuned.tokenizer.pack(TEXTS, seq_length=SETTINGS["max_seq_length"])
    np.testing.assert_array_equal(source, inputs["input_word_ids"])
    begin = np.full((len(TEXTS), 1), number_of["[CLS]"])
    inputs["target_word_ids"] = tf.constant(np.concatenate([begin, target], axis=1), tf.int32)
    expected = finetuned.model(inputs, return_attention_scores=True)["attention_scores"][-1].numpy().mean(axis=1)
    is_pair = (target > 0)[:, :, None] & (source > 0)[:, None]
    attention = np.array(aligned["attention"])
    np.testing.assert_allclose(attention, expected * is_pair, atol=2e-6)
    np.testing.assert_allclose(attention.sum(axis=2), target > 0, atol=1e-5)
    assert (target > 0).any(axis=0).all() and not is_pair.all()  # T is the length of the longest text.
    assert aligned["target_pieces"][0][:5] == ["two", "one", "three", ".", "[SEP]"]
    assert aligned["source_pieces"][0][:6] == ["[CLS]", "zwei", "eins", "drei", ".", "[SEP]"]
    for row, answer in enumerate(alone):
        rows, columns = max(1, (target[row] > 0).sum()), (source[row] > 0).sum()
        assert answer["texts"] == [aligned["texts"][row]]
        assert answer["target_pieces"] == [aligned["target_pieces"][row][:rows]]
        assert answer["source_pieces"] == [aligned["source_pieces"][row][:columns]]
        np.testing.assert_allclose(answer["attention"], attention[None, row, :rows, :columns], atol=2e-6)


def test_the_model_card_and_the_warm_up_ask_for_alignments(exported):
    card = (exported[1] / "README.md").read_text(encoding="utf-8")
    assert "| `alignments` | `text` string [?] | `attention` float32 [?, ?, ?], `source_pieces` string [?, ?]" in card
    assert list(json.loads((exported[1] / "export.json").read_text())["examples"]) == ["serving_default", "alignments"]


@pytest.mark.parametrize("decoder, attention", [("rnn_context", "none"), ("rnn_feedback", "additive")])
def test_only_a_decoder_with_attention_has_alignments(decoder, attention):
    task, tokenizer = registry.find("translation"), run_tokenizer(VOCABULARY, BertConfig(do_lower_case=False))
    run = FinetuningConfig(**{**SETTINGS, "data_dir": "x", "decoder": decoder, "attention": attention})
    model = TextToTextModel(CONFIG, task.family.make_head(task, run, (), tokenizer), seed=7)
    module = TextToTextModule(types.SimpleNamespace(task=task, run=run, labels=(), tokenizer=tokenizer, model=model))
    assert ("alignments" in module.exported) == ("alignments" in module.about.examples) == (attention != "none")
    if attention != "none":
        outputs = module.exported["alignments"](tf.constant(TEXTS))
        is_piece = outputs["target_pieces"].numpy() != b""
        np.testing.assert_allclose(outputs["attention"].numpy().sum(axis=2), is_piece, atol=1e-5)
        assert module.exported["alignments"](tf.constant([], tf.string))["attention"].shape == [0, 1, 1]


def test_raw_texts_are_answered_for_programs_and_for_people(translator):  # noqa: F811
    serve, names = finetuned_export.raw_text_function(translator[0], {"num_beams": 1})
    assert names == ("text",)
    (row, answer), (_, cut) = raw_answers.answers(serve, [{"text": text} for text in (TEXTS[0], TEXTS[2])])
    assert answer["text"] == "two one three." and answer["texts"] == [answer["text"]] and "truncated" not in answer
    assert cut["truncated"] and list(raw_answers.text_lines(row, answer)) == ["zwei eins drei.", "  two one three."]


def test_litert_is_refused_in_one_line(translator, tmp_path):  # noqa: F811
    with pytest.raises(UserError, match="^--litert: the loop that writes a text has no LiteRT model; leave out"):
        finetuned_export.export_finetuned(translator[0], str(tmp_path / "export"), has_litert=True)
