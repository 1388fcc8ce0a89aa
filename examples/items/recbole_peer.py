"""Trains RecBole's own BERT4Rec on the same films, in an environment of its own with torch and recbole.

python examples/items/recbole_peer.py OUTPUT.json [EPOCHS [SEEDS]]
"""

import json
import sys

from recbole.quick_start import run_recbole

# The data and the rules of items.py: the last film is the test, the one before it chooses the epoch, all films compete.
# Everything else is RecBole's default for this model.
SETTINGS = {
    "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
    "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
    "metrics": ["Hit", "NDCG"],
    "topk": [10],
    "valid_metric": "NDCG@10",
    "train_neg_sample_args": None,
    "show_progress": False,
}


def main(output, epochs=300, num_seeds=3):
    scores = []
    for seed in range(1, num_seeds + 1):
        settings = {**SETTINGS, "epochs": epochs, "seed": seed}
        result = run_recbole(model="BERT4Rec", dataset="ml-100k", config_dict=settings, saved=False)
        scores.append([result["test_result"]["hit@10"], result["test_result"]["ndcg@10"]])
        print(f"seed {seed}: HR@10 {scores[-1][0]:.4f}, nDCG@10 {scores[-1][1]:.4f}", flush=True)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(scores, file)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
