"""Runs a row of finetune_rows as one finetune command."""

import json
import os

from benchmarks.common import own_commands


def given_flags(flags_of_row: dict, encoder: str, data_dir: str, precision: str, directory: str = "") -> dict:
    """The flags of finetune without the work directory.

    Args:
        flags_of_row: the flags of a row, with paths relative to data_dir.
        encoder: the model to start from.
        data_dir: folder of the tasks.
        precision: compute type.
        directory: folder with the runs of all rows, to find the run of a row that is a teacher.
    """
    # Without bias correction, step 100 is 3.2 times and step 500 is 1.6 times as large as the learning rate says. These
    # runs are short, so they correct the bias (Zhang et al. 2020, Revisiting Few-sample BERT Fine-tuning, section 4).
    given = {
        "bias_correction": True,
        "precision": precision,
        "num_seeds": 3,
        **flags_of_row,
        "init_checkpoint": encoder,
    }
    given.pop("encoder", None)
    for name in ("data_dir", "test_file"):
        if given.get(name):
            given[name] = os.path.join(data_dir, given[name])
    if teacher := given.get("teacher"):
        given["teacher"] = os.path.join(directory, teacher)
    return given


def run_row(workdir: str, given: dict) -> dict:
    """Trains a row and returns its results.

    Args:
        workdir: str. The work directory.
        given: dict. Flags of finetune, as given_flags returns them.

    Returns:
        dict. The content of results.json.
    """
    own_commands.run("finetune", workdir=workdir, **given)
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        return json.load(file)
