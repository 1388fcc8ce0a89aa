"""The benchmark of text-to-text speed gives both sides the same weights, and refuses contenders that do other work."""

import copy
import json

import numpy as np
import pytest

from benchmarks.text_to_text.speed_contenders import check_same
from benchmarks.text_to_text.speed_files import DECODING, END_ID, TRAINING, Work, encoder_decoder_state, parsed, written
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.text_to_text_model import Decoder, TextToTextModel
from tests.conftest import GOLDEN
from tests.modeling.test_text_to_text_model import reference_value

# transformers' modules that our model does not have, and names of the same tensors.
_POOLER = ("encoder.pooler.dense.weight", "encoder.pooler.dense.bias")
_TIED = ("decoder.cls.predictions.decoder.weight", "decoder.cls.predictions.decoder.bias")
LOOKS = {
    TRAINING: {"parameters": 7, "losses": [9.0, 8.9, 8.8], "first_loss_with_dropout": 9.1},
    DECODING: {
        "parameters": 7,
        "result": {
            "ids": [[[5, 6], [7, 8]] * 10 for _ in range(3)],
            "scores": [[-4.0, -5.0] * 10 for _ in range(3)],
        },
    },
}


def test_the_weights_for_transformers_are_those_of_its_model_under_its_names():
    arrays = np.load(GOLDEN / "text_to_text.npz")
    config = BertConfig(**json.loads(str(arrays["metadata"]))["config"], hidden_act="gelu_exact")
    paths = [variable.path for variable in TextToTextModel(config, Decoder("transformer", 0, "nothing", 2, 3)).weights]
    state = encoder_decoder_state({path: reference_value(path, arrays) for path in paths})
    names = {name.removeprefix("state_dict/") for name in arrays.files if name.startswith("state_dict/")}
    assert names - state.keys() <= {*_POOLER, *_TIED} and not state.keys() - names
    for name, values in state.items():
        np.testing.assert_array_equal(values, arrays[f"state_dict/{name}"], err_msg=name)


def test_the_files_have_full_rows_and_weights_that_forbid_the_end_of_a_text():
    config = BertConfig.of_size("tiny", vocab_size=41, num_hidden_layers=1)
    for work in (Work(TRAINING, 0, 3), Work(DECODING, 2, 3)):
        with written(config, work, 7, 5) as request:
            batch = dict(np.load(f"{request['directory']}/batch.npz"))
            ours, theirs = (dict(np.load(f"{request['directory']}/{name}.npz")) for name in ("ours", "transformers"))
        assert batch["input_word_ids"].shape == (3, 7) and batch["target_word_ids"].shape == (3, 6)
        assert batch["input_mask"].all() and batch["target_word_ids"][:, 1:].min() > END_ID
        assert request["num_parameters"] == sum(values.size for values in ours.values())
        biases = ours["masked_lm/output_bias"]
        np.testing.assert_array_equal(biases, theirs["decoder.cls.predictions.bias"])
        assert (biases[END_ID] < -1e3) == (work.kind == DECODING) and np.abs(biases[5:]).max() < 1.0


@pytest.mark.parametrize("kind", [TRAINING, DECODING])
def test_contenders_that_do_the_same_work_pass_with_their_difference(kind):
    other = copy.deepcopy(LOOKS[kind])
    if kind == TRAINING:
        other["losses"][1] *= 1.0 + 3e-5
    else:
        other["result"]["scores"][1][0] *= 1.0 + 3e-5
        other["result"]["ids"][2][19] = [7, 9]  # 1 of 60 texts, not the best of an input
    differences = check_same(kind, {"ours": LOOKS[kind], "theirs": other}, "float32")
    assert differences["ours"] == 0.0 and differences["theirs"] == pytest.approx(3e-5, rel=1e-6)


def losses(values):
    return lambda look: look.update(losses=values)


def text(text_number, beam, ids):
    return lambda look: look["result"]["ids"][text_number].__setitem__(beam, ids)


@pytest.mark.parametrize(
    "kind, change, reason",
    [
        (TRAINING, losses([9.0, 8.9, 8.81]), "expected the same within 0.0001"),
        (TRAINING, losses([9.0, float("nan"), 8.8]), "expected the same within"),
        (TRAINING, losses([9.0, 9.0, 9.0]), "update nothing"),
        (TRAINING, lambda look: look.update(first_loss_with_dropout=9.0), "has no dropout"),
        (TRAINING, lambda look: look.update(parameters=8), "has 8 parameters, ours 7"),
        (DECODING, text(1, 0, [5, 9]), "1 of 3 best texts and 1 of 60 texts"),
        (DECODING, lambda look: [text(1, beam, [5, 9])(look) for beam in range(1, 6)], "0 of 3 best texts and 5 of 60"),
        (DECODING, text(1, 3, [END_ID, 8]), "with the end piece 1 times"),
        (DECODING, lambda look: look["result"]["scores"].__setitem__(0, [-4.01] * 20), "scores that differ"),
    ],
)
def test_a_contender_that_does_other_work_is_refused(kind, change, reason):
    other = copy.deepcopy(LOOKS[kind])
    change(other)
    with pytest.raises(UserError, match=reason):
        check_same(kind, {"ours": LOOKS[kind], "theirs": other}, "float32")


@pytest.mark.parametrize(
    "name", ["training", "training:0", "training:5:64", "decoding:32", "decoding:a:1", "reading:1"]
)
def test_works_of_another_form_are_refused(name):
    assert parsed("training:64") == (TRAINING, 0, 64) and parsed("decoding:5:32") == (DECODING, 5, 32)
    with pytest.raises(UserError, match="expected training:ROWS or decoding:BEAMS:ROWS"):
        parsed(name)
