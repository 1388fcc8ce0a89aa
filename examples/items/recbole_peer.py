"""Trains RecBole's own BERT4Rec on the same films, in an environment of its own with torch and recbole.

python examples/items/recbole_peer.py OUTPUT.json [EPOCHS [SEEDS]]
"""

import functools
import json
import os
import sys

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.sequential_recommender import BERT4Rec
from recbole.trainer import Trainer
from recbole.utils import init_logger, init_seed

# RecBole's checkpoints hold its configuration, which torch 2.6 and later reads only when asked.
torch.load = functools.partial(torch.load, weights_only=False)

# The split and the metrics of items.py: the last film is the test, the one before it chooses the epoch, and all films
# compete. Everything else is RecBole's default for this model, such as rows of 50 films.
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
    if os.path.exists(output):
        with open(output, encoding="utf-8") as file:
            earlier = json.load(file)
        if not isinstance(earlier, dict):
            sys.exit(f"{output} is of an earlier version, which did not note the epochs; name another file")
        if earlier["epochs"] != epochs:
            sys.exit(
                f"{output} has scores of {earlier['epochs']} epochs, and this start has {epochs}; name another file"
            )
        scores = earlier["scores"]
    for seed in range(len(scores) + 1, num_seeds + 1):
        result = trained({**SETTINGS, "epochs": epochs, "seed": seed}, f"{output}.seed-{seed}.pth")
        scores.append([result["hit@10"], result["ndcg@10"]])
        print(f"seed {seed}: HR@10 {scores[-1][0]:.4f}, nDCG@10 {scores[-1][1]:.4f}", flush=True)
        with open(f"{output}.part", "w", encoding="utf-8") as file:
            json.dump({"epochs": epochs, "scores": scores}, file)
        os.replace(f"{output}.part", output)


def trained(settings, checkpoint):
    """The test's scores of the epoch that the validation chose: what recbole.quick_start does, without its need of ray.

    A run that was stopped continues from its best epoch. Its random numbers then differ from those of an unstopped run.
    """
    config = Config(model="BERT4Rec", dataset="ml-100k", config_dict=settings)
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    train, validation, test = data_preparation(config, create_dataset(config))
    init_seed(config["seed"], config["reproducibility"])
    trainer = Trainer(config, BERT4Rec(config, train.dataset).to(config["device"]))
    trainer.saved_model_file = checkpoint
    if os.path.exists(checkpoint):
        trainer.resume_checkpoint(checkpoint)
    trainer.fit(train, validation, saved=True, show_progress=config["show_progress"])
    return trainer.evaluate(test, load_best_model=True, show_progress=config["show_progress"])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
