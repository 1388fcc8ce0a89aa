"""Tests that surgery keeps remaining values bit for bit, and that new values follow the rules of each operation."""

import dataclasses
import itertools

import numpy as np
import pytest

from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import parity, surgery, vocabulary_surgery
from pipelines import BertTokenizer, DataError
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.interop.conftest import CONFIGS, assert_same, make_weights

WORDS = "encoder/embeddings/word_embeddings"
POSITIONS = "encoder/embeddings/position_embeddings"
OUTPUT_TABLE, OUTPUT_BIAS = "masked_lm/output_embeddings", "masked_lm/output_bias"
OLD = [*SPECIAL_PIECES, "a", "##a", "ab", "##b", "[unused0]", "c", "##cb", "##c"]


def vocabulary(entries):
    return "".join(f"{entry}\n" for entry in entries).encode()


@pytest.fixture(params=["tied", "untied"])
def weights(request):
    """Weights with 13 entries in the vocabulary. The masked-LM head is tied, or has a table with other values."""
    config = CONFIGS["one_layer"].replace(tie_word_embeddings=request.param == "tied")
    return dataclasses.replace(make_weights(config), vocabulary=vocabulary(OLD))


def tables_of(weights):
    return [path for path in (WORDS, OUTPUT_TABLE, OUTPUT_BIAS) if path in weights.tensors]


def assert_others_unchanged(result, weights, changed):
    assert result.tensors.keys() == weights.tensors.keys()
    for path, tensor in weights.tensors.items():
        if path not in changed:
            np.testing.assert_array_equal(result.tensors[path], tensor, err_msg=path)


def assert_fits(weights):
    assert {path: tensor.shape for path, tensor in weights.tensors.items()} == shapes(weights.config)
    assert all(tensor.dtype == np.float32 for tensor in weights.tensors.values())


def test_entries_of_both_vocabularies_keep_their_rows_wherever_they_move(weights):
    new = [*SPECIAL_PIECES, "##c", "c", "cab", "a", "##b"]
    result, line = vocabulary_surgery.replace_vocabulary(weights, vocabulary(new))
    assert_fits(result)
    assert result.vocabulary == vocabulary(new) and result.config == weights.config.replace(vocab_size=10)
    for path in tables_of(weights):
        for entry in set(new) & set(OLD):
            kept = weights.tensors[path][OLD.index(entry)]
            np.testing.assert_array_equal(result.tensors[path][new.index(entry)], kept)
    assert_others_unchanged(result, weights, tables_of(weights))
    assert line == (
        "vocabulary 13 -> 10 entries: 5 kept in place, 4 moved, 1 new from the mean of their pieces, "
        "0 new from the mean of all, 4 dropped"
    )


@pytest.mark.parametrize(
    "entry, pieces",
    [
        ("abab", ["ab", "##a", "##b"]),  # The longest match comes first, so the pieces are not "a ##b ##a ##b".
        ("ccb", ["c", "##cb"]),
        ("##ab", ["##a", "##b"]),  # This entry is the inside of a word, so "ab" is no piece.
        ("##cbc", ["##cb", "##c"]),
        ("xa", OLD),
        ("ax", OLD),
        ("##x", OLD),
        ("##", OLD),
        ("a" * 201, OLD),  # The tokenizer gives [UNK] for a word of over 200 characters.
        ("[unused7]", OLD),  # Surgery does not cut this entry, see the test of unused entries below.
    ],
)
def test_a_new_entry_starts_as_the_mean_of_its_pieces_or_else_of_all_rows(weights, entry, pieces):
    result, line = vocabulary_surgery.replace_vocabulary(weights, vocabulary([*OLD, entry]))
    for path in tables_of(weights):
        np.testing.assert_array_equal(result.tensors[path][:13], weights.tensors[path])
        rows = [weights.tensors[path][OLD.index(piece)].astype(np.float64) for piece in pieces]
        np.testing.assert_allclose(result.tensors[path][13], sum(rows) / len(rows), rtol=0, atol=1e-8)
    assert ("1 new from the mean of all" in line) == (pieces is OLD)


def test_new_words_are_cut_as_the_tokenizer_of_the_old_vocabulary_cuts_them(weights, tmp_path):
    words = ["".join(letters) for letters in itertools.product("abc", repeat=4)]
    (tmp_path / "vocab.txt").write_bytes(weights.vocabulary)
    ids = BertTokenizer(str(tmp_path / "vocab.txt")).tokenize(words).to_list()
    assert len({tuple(row) for row in ids}) > 40
    result, _ = vocabulary_surgery.replace_vocabulary(weights, vocabulary([*OLD, *words]))
    table = weights.tensors[WORDS]
    means = [(table if row == [OLD.index("[UNK]")] else table[row]).mean(axis=0) for row in ids]
    np.testing.assert_allclose(result.tensors[WORDS][13:], means, atol=1e-7)


def test_a_new_unused_entry_is_not_cut_even_if_the_old_vocabulary_has_its_pieces():
    old = [*SPECIAL_PIECES, *"[unsed7]", *(f"##{c}" for c in "[unsed7]")]
    weights = dataclasses.replace(
        make_weights(CONFIGS["one_layer"].replace(vocab_size=len(old))), vocabulary=vocabulary(old)
    )
    result, _ = vocabulary_surgery.replace_vocabulary(weights, vocabulary([*old, "[unused7]", "[unused"]))
    table = weights.tensors[WORDS]
    np.testing.assert_allclose(result.tensors[WORDS][-2], table.mean(axis=0, dtype=np.float64), atol=1e-8)
    pieces = [old.index(piece) for piece in ("[", "##u", "##n", "##u", "##s", "##e", "##d")]
    np.testing.assert_allclose(result.tensors[WORDS][-1], table[pieces].mean(axis=0, dtype=np.float64), atol=1e-8)


def test_a_word_that_took_an_unused_slot_starts_from_its_pieces_and_not_from_the_slot(weights):
    new = [entry.replace("[unused0]", "cab") for entry in OLD]
    result, line = vocabulary_surgery.replace_vocabulary(weights, vocabulary(new))
    pieces = [OLD.index(piece) for piece in ("c", "##a", "##b")]
    slot = OLD.index("[unused0]")
    np.testing.assert_allclose(result.tensors[WORDS][slot], weights.tensors[WORDS][pieces].mean(axis=0), atol=1e-7)
    assert "12 kept in place, 0 moved, 1 new from the mean of their pieces" in line and "1 dropped" in line


def test_the_same_vocabulary_changes_nothing(weights):
    result, _ = vocabulary_surgery.replace_vocabulary(weights, weights.vocabulary)
    assert_same(result, weights)


def test_rows_beyond_the_old_vocabulary_are_dropped_and_reported_and_not_averaged(weights):
    padded = dataclasses.replace(weights, vocabulary=vocabulary(OLD[:11]))
    result, line = vocabulary_surgery.replace_vocabulary(padded, vocabulary([*OLD[:11], "x"]))
    for path in tables_of(weights):
        np.testing.assert_array_equal(result.tensors[path][:11], weights.tensors[path][:11])
        np.testing.assert_allclose(result.tensors[path][11], weights.tensors[path][:11].mean(axis=0), atol=1e-7)
    assert line.endswith("; 2 rows beyond the old vocabulary dropped")


def test_old_tokens_give_the_same_outputs_under_their_new_ids(weights):
    new = [*SPECIAL_PIECES, "cab", *reversed(OLD[5:])]
    result, _ = vocabulary_surgery.replace_vocabulary(weights, vocabulary(new))
    batch = parity.probe_batch(weights.config)
    new_ids = np.array([new.index(entry) for entry in OLD])
    before = parity.our_outputs(weights, batch)
    after = parity.our_outputs(result, {**batch, "input_word_ids": new_ids[batch["input_word_ids"]].astype(np.int32)})
    for name, values in before.items():
        values_after = after[name][..., new_ids] if name == "mlm_logits" else after[name]
        np.testing.assert_allclose(values_after, values, rtol=0, atol=0 if name != "mlm_logits" else 1e-6, err_msg=name)


@pytest.mark.parametrize(
    "entries, message",
    [
        ([*OLD, "a"], r"vocabulary \(the new one\): line 14 repeats line 6 \('a'\)"),
        (["a", *SPECIAL_PIECES], r"\[PAD\] is in line 2, not in line 1"),
        ([entry for entry in OLD if entry != "[MASK]"], r"\[MASK\] is missing"),
        ([*OLD, ""], "line 14 is empty"),
    ],
)
def test_an_unusable_new_vocabulary_is_refused(weights, entries, message):
    with pytest.raises(DataError, match=message):
        vocabulary_surgery.replace_vocabulary(weights, vocabulary(entries))


def test_weights_without_a_vocabulary_or_with_an_unsuitable_one_are_refused(weights):
    with pytest.raises(UserError, match="has no vocab.txt"):
        vocabulary_surgery.replace_vocabulary(dataclasses.replace(weights, vocabulary=None), vocabulary(OLD))
    with pytest.raises(UserError, match="its vocabulary has 14 entries, its table of embeddings 13 rows"):
        vocabulary_surgery.replace_vocabulary(
            dataclasses.replace(weights, vocabulary=vocabulary([*OLD, "x"])), vocabulary(OLD)
        )
    with pytest.raises(DataError, match="vocabulary of random: line 14 repeats"):
        vocabulary_surgery.replace_vocabulary(
            dataclasses.replace(weights, vocabulary=vocabulary([*OLD, "a"])), vocabulary(OLD)
        )


def test_grown_positions_repeat_the_learned_rows_and_keep_them(weights):
    result, line = surgery.grow_positions(weights, 41)  # The given model has 17 positions.
    table, grown = weights.tensors[POSITIONS], result.tensors[POSITIONS]
    assert_fits(result)
    np.testing.assert_array_equal(grown, np.concatenate([table, table, table[:7]]))
    assert_others_unchanged(result, weights, [POSITIONS])
    assert line.startswith("positions 17 -> 41: the rows from 17 on are copies of the first 17")
    batch = parity.probe_batch(weights.config)
    before, after = parity.our_outputs(weights, batch), parity.our_outputs(result, batch)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    longer = parity.our_outputs(result, parity.probe_batch(result.config))
    assert longer["embedding_output"].shape[1] == 41 and all(np.isfinite(array).all() for array in longer.values())


def test_fewer_positions_cut_the_table_and_the_line_counts_the_rows(weights):
    result, line = surgery.grow_positions(weights, 5)
    assert_fits(result)
    np.testing.assert_array_equal(result.tensors[POSITIONS], weights.tensors[POSITIONS][:5])
    assert line == "positions 17 -> 5: 12 rows cut"
    same, line = surgery.grow_positions(weights, 17)
    assert_same(same, weights)
    assert line == "positions 17 -> 17: unchanged"
    with pytest.raises(UserError, match="0 is not a number of positions"):
        surgery.grow_positions(weights, 0)


def test_kept_layers_get_new_numbers_and_keep_their_values():
    weights = make_weights(CONFIGS["three_layers"])
    result, line = surgery.keep_layers(weights, [0, 2])
    assert_fits(result)
    assert line == "layers 3 -> 2: kept 0, 2"
    for path, tensor in result.tensors.items():
        old_path = path.replace("encoder/layer_1/", "encoder/layer_2/")
        np.testing.assert_array_equal(tensor, weights.tensors[old_path], err_msg=path)


def test_a_model_of_the_first_layers_computes_the_same_states_in_these_layers():
    weights = make_weights(CONFIGS["three_layers"])
    batch = parity.probe_batch(weights.config)
    before = parity.our_outputs(weights, batch)
    after = parity.our_outputs(surgery.keep_layers(weights, [0, 1])[0], batch)
    for name in ("embedding_output", "layer_0", "layer_1"):
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    assert "layer_2" not in after and not np.allclose(after["pooled_output"], before["pooled_output"], atol=1e-3)


@pytest.mark.parametrize("indices", [[], [3], [-1, 0], [1, 0], [1, 1]])
def test_layers_that_do_not_exist_or_do_not_ascend_are_refused(indices):
    with pytest.raises(UserError, match="expected ascending numbers from 0 to 2, such as 0,2"):
        surgery.keep_layers(make_weights(CONFIGS["three_layers"]), indices)


def test_an_untied_head_gets_a_copy_of_the_table_and_can_be_tied_again_without_loss():
    weights = make_weights(CONFIGS["seven_heads"])
    untied, _ = surgery.untie(weights)
    assert_fits(untied)
    np.testing.assert_array_equal(untied.tensors[OUTPUT_TABLE], weights.tensors[WORDS])
    assert not np.shares_memory(untied.tensors[OUTPUT_TABLE], untied.tensors[WORDS])
    batch = parity.probe_batch(weights.config)
    before, after = parity.our_outputs(weights, batch), parity.our_outputs(untied, batch)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    tied, line = surgery.tie(untied)
    assert_same(tied, weights)
    assert line == "tied: both tables were the same"


@pytest.mark.parametrize("kept", ["word_embeddings", "output_embeddings"])
def test_tables_that_differ_are_tied_only_if_the_caller_chooses_one(kept):
    weights = make_weights(CONFIGS["one_layer"].replace(tie_word_embeddings=False))
    with pytest.raises(UserError, match="choose the table to keep: word_embeddings or output_embeddings"):
        surgery.tie(weights)
    result, _ = surgery.tie(weights, kept)
    assert_fits(result)
    source = {"word_embeddings": WORDS, "output_embeddings": OUTPUT_TABLE}[kept]
    np.testing.assert_array_equal(result.tensors[WORDS], weights.tensors[source])


def test_a_head_that_is_tied_or_untied_already_or_missing_is_refused():
    weights = make_weights(CONFIGS["one_layer"])
    with pytest.raises(UserError, match="its masked_lm head is already tied"):
        surgery.tie(weights)
    untied, _ = surgery.untie(weights)
    with pytest.raises(UserError, match="its masked_lm head is already untied"):
        surgery.untie(untied)
    with pytest.raises(UserError, match="the table to keep is 'words'"):
        surgery.tie(untied, "words")
    with pytest.raises(UserError, match="has no masked_lm head"):
        surgery.untie(surgery.drop_parts(weights, ["masked_lm"])[0])


def test_dropped_parts_are_removed_and_the_rest_is_unchanged():
    weights = make_weights(CONFIGS["one_layer"])
    result, line = surgery.drop_parts(weights, ["masked_lm", "classifier"])
    assert result.parts() == ("encoder", "pooler", "next_sentence")
    assert list(result.tensors) == [path for path in weights.tensors if not path.startswith("masked_lm/")]
    assert all(tensor is weights.tensors[path] for path, tensor in result.tensors.items())
    assert line == "dropped: masked_lm (5 tensors), classifier (there was none)"


def test_dropping_a_classifier_also_removes_its_task_and_labels():
    weights = make_weights(CONFIGS["one_layer"])
    classifier = {"classifier/kernel": np.ones((22, 3), np.float32), "classifier/bias": np.ones(3, np.float32)}
    weights = dataclasses.replace(
        weights, tensors={**weights.tensors, **classifier}, task="sequence_classification", labels=("x", "y", "z")
    )
    with pytest.raises(UserError, match="pooler cannot be dropped alone: classifier reads its output"):
        surgery.drop_parts(weights, ["pooler", "next_sentence"])
    result, _ = surgery.drop_parts(weights, ["classifier"])
    assert_same(result, make_weights(CONFIGS["one_layer"]))


@pytest.mark.parametrize(
    "parts, message",
    [
        (["encoder"], "part 'encoder' cannot be dropped"),
        (["nsp"], "part 'nsp' cannot be dropped; expected some of pooler, masked_lm, next_sentence, language_model"),
        (["pooler"], "pooler cannot be dropped alone: next_sentence reads its output"),
    ],
)
def test_a_part_that_other_parts_need_or_that_is_unknown_is_refused(parts, message):
    with pytest.raises(UserError, match=message):
        surgery.drop_parts(make_weights(CONFIGS["one_layer"]), parts)
