"""Golden scores of random rankings.

Reference: PyPI pytrec-eval-terrier 0.5.11, which runs NIST's trec_eval 9. See
README.md beside this file for the environment.

    python tests/golden/generate_search_scores.py

Writes search_scores.json beside this file:
  metadata   versions and seed
  cases      list of {"ranking", "grades", "scores"}: ids, the best first; id ->
             grade; score -> value under our name
"""

import json
import os
import random
from importlib.metadata import version

import pytrec_eval

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20100610
VERSIONS = {"pytrec-eval-terrier": "0.5.11"}
# Our name -> trec_eval's measure. Its reciprocal rank has no limit, so the ranking for it has 10 texts.
MEASURES = {
    "ndcg@10": "ndcg_cut_10",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
    "map@100": "map_cut_100",
}


def main():
    found = {name: version(name) for name in VERSIONS}
    assert found == VERSIONS, f"expected {VERSIONS}, found {found}"
    draw, cases = random.Random(SEED), []
    for _ in range(40):
        names = [f"d{number}" for number in range(draw.choice((5, 30, 200)))]
        grades = {name: draw.choice((0, 0, 1, 1, 2, 3)) for name in draw.sample(names, min(len(names), 12))}
        grades[names[0]] = 1
        grades["never found"] = draw.choice((0, 1))
        ranking = draw.sample(names, draw.randint(1, min(len(names), 150)))
        run = {name: float(len(ranking) - rank) for rank, name in enumerate(ranking)}
        evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, set(MEASURES.values()))
        values = evaluator.evaluate({"q": run})["q"]
        first = {name: run[name] for name in ranking[:10]}
        rank = pytrec_eval.RelevanceEvaluator({"q": grades}, {"recip_rank"}).evaluate({"q": first})["q"]
        scores = {name: values[measure] for name, measure in MEASURES.items()} | {"mrr@10": rank["recip_rank"]}
        cases.append({"ranking": ranking, "grades": grades, "scores": scores})
    with open(os.path.join(OUTPUT_DIR, "search_scores.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"versions": VERSIONS, "seed": SEED}, "cases": cases}, file)


if __name__ == "__main__":
    main()
