"""A segmenter puts spaces between Chinese words and changes nothing else. Masking advice names the right setting."""

import sys
from types import SimpleNamespace

import pytest

from pipelines.corpus.preparation import load_manifest, prepare_corpus, shard_paths
from pipelines.data_error import DataError
from pipelines.examples.masking_advice import masking_advice
from pipelines.text import segmentation


@pytest.fixture
def jieba(monkeypatch):
    """Replaces jieba with a module that cuts text into words of two characters."""
    module = SimpleNamespace(
        cut=lambda text: [text[i : i + 2] for i in range(0, len(text), 2)],
        setLogLevel=lambda level: None,
        initialize=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "jieba", module)
    segmentation._jieba.cache_clear()
    yield module
    segmentation._jieba.cache_clear()


@pytest.fixture
def no_jieba(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    segmentation._jieba.cache_clear()
    yield
    segmentation._jieba.cache_clear()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("他来了，我走。", "他来 了 ， 我走 。"),
        ("iPhone手机 很好\n（中文）ok", "iPhone 手机 很好\n（ 中文 ）ok"),
        ("No Chinese  here.", "No Chinese  here."),
        ("한국어 かな", "한국어 かな"),
        ("", ""),
    ],
)
def test_runs_of_chinese_characters_are_cut_and_other_text_stays(jieba, text, expected):
    assert segmentation.segment([text.encode()], "jieba") == [expected.encode()]
    assert segmentation.segment([text.encode()], "none") == [text.encode()]


def test_a_corpus_is_cut_into_words_and_its_manifest_names_the_segmenter(jieba, tmp_path):
    import tensorflow as tf

    documents = [["他来了。", "我走。"], ["Other text.", "中文"]]
    prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0, segmenter="jieba")
    manifest = load_manifest(str(tmp_path))
    records = tf.data.TFRecordDataset(shard_paths(str(tmp_path), manifest, "train")).as_numpy_iterator()
    assert sorted(record.decode() for record in records) == ["Other text.\n中文", "他来 了 。\n我走 。"]
    assert manifest["segmenter"] == "jieba" and manifest["train"]["words"] == 4 + 3 + 3 + 2


def test_a_missing_segmenter_is_refused_in_one_line_that_says_how_to_install_it(no_jieba, tmp_path):
    with pytest.raises(DataError, match="pip install jieba") as error:
        prepare_corpus(str(tmp_path / "out"), documents=[["a", "b"]], segmenter="jieba")
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()
    with pytest.raises(DataError, match="segmenter is 'jeiba'; expected one of none, jieba"):
        segmentation.check_segmenter("jeiba")


UNCUT = [[f"他们在北京大学学习中文{chr(0x4E00 + i)}。", "后来他们去了上海工作。"] for i in range(20)]
CUT = [[f"他们 在 北京 大学 学习 中文 {chr(0x4E00 + i)} 。", "后来 他们 去 了 上海 工作 。"] for i in range(20)]
ENGLISH = [[f"The cat sat on mat {i}.", "It is 猫 in Chinese."] for i in range(20)]


@pytest.mark.parametrize(
    "documents, masking, parts",
    [
        (UNCUT, "whole_word", ["hides Chinese characters one by one", "92% of the words", "--segmenter=jieba"]),
        (CUT, "whole_word", ["hides Chinese characters one by one", "take --masking=segmented"]),
        (UNCUT, "segmented", ["is not cut into words", "11.0 characters", "--segmenter=jieba"]),
        (CUT, "segmented", []),
        (ENGLISH, "whole_word", []),
        (UNCUT, "piece", []),
    ],
)
def test_a_masking_that_does_not_fit_chinese_text_gets_one_line_of_advice(tmp_path, documents, masking, parts):
    manifest = prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0)
    lines = masking_advice([shard_paths(str(tmp_path), manifest, "train")], masking)
    assert len(lines) == bool(parts) and all(part in lines[0] for part in parts)
