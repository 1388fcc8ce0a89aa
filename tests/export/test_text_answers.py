"""The export of a text-to-text run writes the texts of predict, in a fresh process after a move."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned_export, raw_answers, saved_models
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.export.test_export import run_python
from tests.tasks.families.test_text_to_text import parallel_dir, translator  # noqa: F401  fixtures

_ASK = """
import json, sys
import tensorflow as tf
import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
outputs = serve(text=tf.constant(json.loads(sys.argv[2])))
texts = [[text.decode() for text in row] for row in outputs["texts"].numpy()]
print(json.dumps({"texts": texts, "scores": outputs["scores"].numpy().tolist()}))
"""
TEXTS = ["zwei eins drei.", "", "vier " * 20]


def test_a_fresh_process_writes_the_texts_of_predict_without_this_package(translator, tmp_path):  # noqa: F811
    finetuned_export.export_finetuned(translator[0], str(tmp_path / "written"))
    shutil.move(tmp_path / "written", tmp_path / "elsewhere")
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    finetuned = FinetunedRun(translator[0])
    finetuned.predict(str(tmp_path / "new.txt"), str(tmp_path / "out"))
    expected = [json.loads(line) for line in (tmp_path / "out/probabilities.jsonl").read_text().splitlines()]
    outputs = json.loads(run_python(_ASK, str(tmp_path / "elsewhere/1"), json.dumps(TEXTS)))
    assert outputs["texts"] == [entry["texts"] for entry in expected]
    np.testing.assert_allclose(outputs["scores"], [entry["scores"] for entry in expected], atol=2e-6)

    ids = saved_models.load(str(tmp_path / "written_ids")).signatures["serving_default"]
    encoded = finetuned.tokenizer.pack(TEXTS[:1], seq_length=11)
    answer = ids(**{name: tf.constant(values) for name, values in encoded.items()})
    pieces = [finetuned.tokenizer.vocabulary[number] for number in answer["target_word_ids"][0, 0].numpy() if number]
    assert pieces == ["two", "one", "three", ".", "[SEP]"]


def test_raw_texts_are_answered_for_programs_and_for_people(translator):  # noqa: F811
    serve, names = finetuned_export.raw_text_function(translator[0], {"num_beams": 1})
    assert names == ("text",)
    (row, answer), (_, cut) = raw_answers.answers(serve, [{"text": text} for text in (TEXTS[0], TEXTS[2])])
    assert answer["text"] == "two one three." and answer["texts"] == [answer["text"]] and "truncated" not in answer
    assert cut["truncated"] and list(raw_answers.text_lines(row, answer)) == ["zwei eins drei.", "  two one three."]


def test_litert_is_refused_in_one_line(translator, tmp_path):  # noqa: F811
    with pytest.raises(UserError, match="^--litert: the loop that writes a text has no LiteRT model; leave out"):
        finetuned_export.export_finetuned(translator[0], str(tmp_path / "export"), has_litert=True)
