from benchmarks.text_to_text.multi30k_rows import COMPARED, KINDS, ROWS, differences, reads_bert


def test_compared_rows_differ_in_one_flag():
    for kind, other in COMPARED.items():
        ours, theirs = KINDS[kind], KINDS[other]
        differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        assert len(differing) == 1, (kind, other, differing)


def test_only_rows_that_are_there_are_compared():
    assert differences(["en_de:warm", "de_en:random"]) == {
        "en_de:warm, beam search - greedy": ("en_de:warm", "en_de:warm", 1),
        "de_en:random, beam search - greedy": ("de_en:random", "de_en:random", 1),
    }
    found = differences(ROWS)
    assert found["en_de:warm_quarter - en_de:random_quarter"] == ("en_de:warm_quarter", "en_de:random_quarter", 0)
    assert found["de_en:rnn_feedback_additive - de_en:rnn_feedback"][1] == "de_en:rnn_feedback"
    assert "de_en:warm - de_en:random" in found  # the control is there for both directions


def test_warm_rows_and_their_controls_read_the_bert():
    assert {row for row in ROWS if reads_bert(row)} == {
        "en_de:warm", "en_de:warm_scratch_decoder", "en_de:warm_quarter", "en_de:random", "en_de:random_quarter",
        "de_en:warm", "de_en:random",
    }  # fmt: skip
