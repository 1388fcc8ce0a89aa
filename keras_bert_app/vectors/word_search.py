"""Search by words: BM25, by the package bm25s."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.errors import UserError

# The values of Anserini's baselines, which BEIR reports.
_K1, _B = 0.9, 0.4
# Runs of letters and digits; a Chinese character is a word of its own.
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
WORDS = rf"(?u)[{_CHINESE}]|[^\W_{_CHINESE}]+"


def check_installed() -> None:
    """Checks that bm25s is installed.

    Raises:
        UserError: it is not.
    """
    _bm25s()


def rankings(ids: Sequence[str], texts: Sequence[str], queries: Mapping[str, str], count: int) -> dict[str, list[str]]:
    """The texts with the highest BM25 for each query (Robertson and Zaragoza 2009; Lucene's formula).

    Words are in lower case; there is no stemming, and no word is left out.

    Args:
        ids: the names of the texts.
        texts: the texts.
        queries: dict name -> query.
        count: how many texts to find; all texts if there are fewer.

    Returns:
        dict name of a query -> ids, the best first; of equal ones, the first in the corpus. Texts without a word of the
        query do not count.
    """
    bm25s = _bm25s()
    how = {"token_pattern": WORDS, "stopwords": None, "show_progress": False}
    index, tokens = bm25s.BM25(method="lucene", k1=_K1, b=_B), bm25s.tokenize(list(texts), **how)
    if not any(len(numbers) for numbers in tokens.ids):
        return {name: [] for name in queries}
    index.index(tokens, show_progress=False)
    words = bm25s.tokenize(list(queries.values()), return_ids=False, **how)
    found = {}
    for name, words_of_query in zip(queries, words, strict=True):
        known = [word for word in words_of_query if word in index.vocab_dict]
        scores = index.get_scores(known) if known else np.zeros(len(ids))
        best = np.argsort(-scores, kind="stable")[:count]
        found[name] = [ids[place] for place in best if scores[place] > 0]
    return found


def _bm25s():
    try:
        import bm25s
    except ImportError:
        raise UserError(
            "the package bm25s is not installed; pip install -r requirements-search.txt, or give --nobm25"
        ) from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it reports each step
    return bm25s
