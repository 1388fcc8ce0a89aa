"""Made-up tasks of retrieval and of similarity for mteb's runner. benchmarks.vectors.mteb_scores runs them.

A sentence has a subject, a verb and a place. Its paraphrase says all three in other words. A query is a paraphrase: the
sentence with the same three parts has the grade 2, those with the same subject and verb have the grade 1. The score of
a pair is 5 / 3 for each part that a sentence and a paraphrase share.
"""

import itertools

import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

_NUM_QUERIES, _NUM_PAIRS, _SEED = 60, 200, 1
_SUBJECTS = {
    "man": "guy",
    "woman": "lady",
    "child": "toddler",
    "doctor": "physician",
    "cat": "kitten",
    "dog": "puppy",
    "horse": "pony",
    "robot": "machine",
}
_VERBS = {
    "sleeps": "takes a nap",
    "eats": "has a meal",
    "shouts": "makes a lot of noise",
    "runs": "moves quickly",
    "falls": "loses its balance",
    "waits": "does not leave yet",
}
_PLACES = {
    "in the kitchen": "next to the stove",
    "in the forest": "among the trees",
    "at the beach": "by the sea",
    "on the road": "between the cars",
    "at school": "in front of the class",
    "in the snow": "on a cold white field",
}
_FACTS = list(itertools.product(_SUBJECTS, _VERBS, _PLACES))
# mteb requires these fields. They do not change the scores.
_NOTHING = dict.fromkeys(
    (
        "reference",
        "date",
        "domains",
        "task_subtypes",
        "license",
        "annotations_creators",
        "dialect",
        "sample_creation",
        "bibtex_citation",
    )
)


def _sentence(fact):
    return "A {} {} {}.".format(*fact)


def _paraphrase(fact):
    subject, verb, place = fact
    return f"There, {_PLACES[place]}, a {_SUBJECTS[subject]} {_VERBS[verb]}."


def _description(name, kind, main_score):
    return TaskMetadata(
        name=name,
        description="made-up sentences",
        dataset={"path": "made-up", "revision": "1"},
        type=kind,
        main_score=main_score,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        **_NOTHING,
    )


class MadeUpRetrieval(AbsTaskRetrieval):
    """Finds the sentences of a paraphrase: 60 queries, 288 documents."""

    metadata = _description("MadeUpRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, **_):
        """Makes the data. mteb calls it."""
        chosen = np.random.default_rng(_SEED).choice(len(_FACTS), _NUM_QUERIES, replace=False).tolist()
        grades = {
            f"q{row}": {
                f"d{other}": 1 + (fact == _FACTS[row])
                for other, fact in enumerate(_FACTS)
                if fact[:2] == _FACTS[row][:2]
            }
            for row in chosen
        }
        documents = [{"id": f"d{row}", "title": "", "text": _sentence(fact)} for row, fact in enumerate(_FACTS)]
        queries = [{"id": f"q{row}", "text": _paraphrase(_FACTS[row])} for row in chosen]
        split = RetrievalSplitData(
            corpus=Dataset.from_list(documents),
            queries=Dataset.from_list(queries),
            relevant_docs=grades,
            top_ranked=None,
        )
        self.dataset, self.data_loaded = {"default": {"test": split}}, True


class MadeUpSimilarity(AbsTaskSTS):
    """Scores how much 200 pairs of a sentence and a paraphrase have in common."""

    metadata = _description("MadeUpSimilarity", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, **_):
        """Makes the data. mteb calls it."""
        generator = np.random.default_rng(_SEED)
        facts = [_FACTS[row] for row in generator.integers(len(_FACTS), size=_NUM_PAIRS)]
        others = [_FACTS[row] for row in generator.integers(len(_FACTS), size=_NUM_PAIRS)]
        is_kept = generator.random((_NUM_PAIRS, 3)) < 0.5
        mixed = [
            tuple(one if kept else other for one, other, kept in zip(*parts, strict=True))
            for parts in zip(facts, others, is_kept, strict=True)
        ]
        columns = {
            "sentence1": [_sentence(fact) for fact in facts],
            "sentence2": [_paraphrase(fact) for fact in mixed],
            "score": [
                5 / 3 * sum(a == b for a, b in zip(*pair, strict=True)) for pair in zip(facts, mixed, strict=True)
            ],
        }
        self.dataset, self.data_loaded = {"test": Dataset.from_dict(columns)}, True
