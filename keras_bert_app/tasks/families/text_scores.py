"""Scores of texts against reference texts, by sacrebleu: BLEU, chrF and exact matches."""

import functools
import re
from collections.abc import Sequence

import numpy as np

_HAN, _KANA = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_ORDERS = 4  # BLEU counts sequences of up to four words


def tokenization(references: Sequence[str]) -> str:
    """The name of sacrebleu's tokenization, by the characters that most references have.

    Args:
        references: sequence of str.

    Returns:
        str: "char" for Japanese (characters count as words), "zh" for Chinese, else "13a".
    """

    def is_usual(characters):
        return 2 * sum(bool(characters.search(text)) for text in references) > len(references)

    if is_usual(_KANA):
        return "char"
    return "zh" if is_usual(_HAN) else "13a"


@functools.cache
def _bleu(tokenize, lowercase):
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase)


@functools.cache
def _chrf():
    from sacrebleu.metrics import CHRF

    return CHRF()


def bleu_counts(outputs: Sequence[str], references: Sequence[str], lowercase: bool = False) -> np.ndarray:
    """Counts sequences of words in each text. BLEU of a set of texts follows from the sums of these counts.

    Args:
        outputs: N str.
        references: N str.
        lowercase: bool. Whether to ignore case.

    Returns:
        int64 [N, 10]: the numbers of sequences of one, two, three and four words that the reference also has; the
        numbers of all such sequences; the number of words of the output, and of the reference.
    """
    bleu = _bleu(tokenization(references), lowercase)
    counts = np.zeros((len(outputs), 2 * _ORDERS + 2), np.int64)
    for row, output, reference in zip(counts, outputs, references, strict=True):
        score = bleu.corpus_score([output], [[reference]])
        row[:] = (*score.counts, *score.totals, score.sys_len, score.ref_len)
    return counts


def bleu_of_counts(counts: np.ndarray) -> float:
    """BLEU of a set of texts, from 0 to 100.

    Args:
        counts: int64 [N, 10]. The result of bleu_counts for these texts.
    """
    from sacrebleu.metrics import BLEU

    *orders, output_words, reference_words = (int(value) for value in counts.sum(axis=0))
    right, all_sequences = orders[:_ORDERS], orders[_ORDERS:]
    return BLEU.compute_bleu(right, all_sequences, output_words, reference_words, smooth_method="exp").score


def chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    """chrF of a set of texts (Popović 2015), from 0 to 100.

    Args:
        outputs: N str.
        references: N str.
    """
    return _chrf().corpus_score(outputs, [references]).score


def chrf_counts(outputs: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Counts sequences of characters in each text. chrF of a set of texts follows from the sums of these counts.

    Args:
        outputs: N str.
        references: N str.

    Returns:
        int64 [N, 18]: for each of six lengths the sequences of the output, of the reference, and of both.
    """
    # sacrebleu has no public function for these counts. A test compares the scores.
    return np.array(_chrf()._extract_corpus_statistics(list(outputs), [list(references)]), np.int64)


def chrf_of_counts(counts: np.ndarray) -> float:
    """chrF of a set of texts, from 0 to 100.

    Args:
        counts: int64 [N, 18]. The result of chrf_counts for these texts.
    """
    return _chrf()._compute_f_score([int(value) for value in counts.sum(axis=0)])


def chrf_of_texts(outputs: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """float64 [N]: chrF of each text alone, from 0 to 100."""
    return np.array(
        [
            _chrf().sentence_score(output, [reference]).score
            for output, reference in zip(outputs, references, strict=True)
        ]
    )


def signatures(references: Sequence[str]) -> dict[str, str]:
    """The signatures of sacrebleu, which say how scores were computed.

    Args:
        references: sequence of str.

    Returns:
        dict metric -> signature.
    """
    texts, result = list(references[:1]), {}
    tokenize = tokenization(references)
    for name, metric in (
        ("bleu", _bleu(tokenize, False)),
        ("bleu_lowercase", _bleu(tokenize, True)),
        ("chrf", _chrf()),
    ):
        metric.corpus_score(texts, [texts])  # after a score, the signature has the number of references
        result[name] = str(metric.get_signature())
    return result
