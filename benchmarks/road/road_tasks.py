"""The tasks of the road's table, and the flags of finetune for a station on a task."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.road.stations import STATIONS, Station
from keras_bert_app.cli.common import app
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError

PRETRAINED, RANDOM = "pre-trained", "random"
MIX_RUNS = 3  # runs with different seeds, for the spread of a mix of layers
_BATCH_SIZE = 32
_LM_TUNING_STEPS = 200  # of ULMFiT on the training texts of the task


@dataclasses.dataclass(frozen=True)
class RoadTask:
    """A task of the table.

    Attributes:
        title: name in the table.
        num_examples: training examples of a run. A larger training set is drawn from.
        num_epochs: passes over them.
        flags: flags of finetune. data_dir and test_file are relative to the folder of the tasks. Without test_file the
            reported examples are one half of dev.
    """

    title: str
    num_examples: int
    num_epochs: int
    flags: Mapping[str, Any]

    @property
    def is_tagging(self) -> bool:
        """Whether the task has a tag for each word."""
        return self.flags["task"] == "ner"

    def num_steps(self, num_examples: int) -> int:
        """Steps of a run, about.

        Args:
            num_examples: training examples of the run.
        """
        return self.num_epochs * -(-num_examples // _BATCH_SIZE)


_SST = {"task": "sst-2", "data_dir": "glue/SST-2", "max_seq_length": 64}
TASKS = {
    "conll2003": RoadTask(
        "CoNLL-2003, entity F1 on test",
        10_000,
        2,
        {"task": "ner", "data_dir": "conll2003", "test_file": "conll2003/test.txt"},
    ),
    "sst-2": RoadTask("SST-2, accuracy on half of dev", 10_000, 2, _SST),
    "sts-b": RoadTask("STS-B, Spearman on half of dev", 5_749, 3, {"task": "sts-b", "data_dir": "glue/STS-B"}),
    "newsgroups": RoadTask(
        "20 Newsgroups, accuracy on test",
        4_000,
        2,
        {
            "task": "newsgroups",
            "data_dir": "20newsgroups-bydate",
            "test_file": "20newsgroups-bydate/test.jsonl",
            "max_seq_length": 256,
        },
    ),
}
# CoVe pre-trains on it. The directory is relative to the folder of the tasks.
TRANSLATION = {"task": "translation", "data_dir": "multi30k", "source": "en", "target": "de"}
# The curves over few labels (Howard and Ruder 2018, figure 3). Their last point is the task sst-2.
FEW_LABELS = {
    f"sst-2-{number}": RoadTask(f"SST-2, accuracy, {number:,} examples", number, epochs, _SST)
    for number, epochs in ((100, 20), (1000, 6))
}
CURVE = {**FEW_LABELS, "sst-2": TASKS["sst-2"]}
# A station with random weights trains all of them in the same way, from the first step on.
_ONLY_PRETRAINED = ("freeze_layers", "layer_decay", "learning_rate_schedule")
CURVES = ("ULMFiT", "GPT", "BERT")


def rows(stations: list[str]) -> list[str]:
    """The rows STATION:TASK:START of all runs. Further runs of the row of a mix are STATION:TASK:START:2 and so on.

    Args:
        stations: keys of STATIONS.
    """
    found = [f"{name}:{task}:{start}" for task in TASKS for name in stations for start in (PRETRAINED, RANDOM)]
    found += [
        f"{name}:{task}:{start}"
        for task in FEW_LABELS
        for name in stations
        if name in CURVES
        for start in (PRETRAINED, RANDOM)
    ]
    mixed = [name for name in stations if STATIONS[name].has_mix]
    return found + [row for task in TASKS for name in mixed for row in mix_rows(name, task)[1:]]


def mix_rows(name: str, task: str) -> list[str]:
    """The rows of the runs of a mix, each with its own seed.

    Args:
        name: key of STATIONS.
        task: key of TASKS.
    """
    return [f"{name}:{task}:{PRETRAINED}" + f":{number}" * (number > 1) for number in range(1, MIX_RUNS + 1)]


def check_files(tasks_dir: str, stations: Sequence[str]) -> None:
    """Checks that the files of all tasks are there, so that no run ends for lack of one.

    Args:
        tasks_dir: folder of the tasks.
        stations: keys of STATIONS. Only CoVe reads TRANSLATION.

    Raises:
        UserError: a file is missing.
    """
    with app.quiet_start():
        from keras_bert_app.tasks import registry
    wanted = [task.flags for task in TASKS.values()]
    wanted += [TRANSLATION] * any(STATIONS[name].verb == "finetune" for name in stations)
    for flags in wanted:
        data_dir = os.path.join(tasks_dir, flags["data_dir"])
        for source in {flags.get("source", ""), flags.get("target", "")}:
            task = registry.find(flags["task"]).bound(FinetuningConfig(task=flags["task"], source=source))
            try:
                for split in ("train", "dev"):
                    task.path(data_dir, split)
            except UserError as error:
                # The advice behind the semicolon is about flags that this program lacks.
                missing = str(error).removeprefix("--data_dir=").partition("; ")[0]
                raise UserError(f"--tasks_dir={tasks_dir}: {missing}; give the folder of all tasks") from None
        if "test_file" in flags and not os.path.isfile(path := os.path.join(tasks_dir, flags["test_file"])):
            raise UserError(f"--tasks_dir={tasks_dir}: there is no file {path}; give the folder of all tasks")


def flags_of(
    row: str,
    models_dir: str,
    tasks_dir: str,
    configs: dict[str, str],
    vocab_file: str,
    seed: int,
    most_examples: int = 0,
) -> dict:
    """The flags of a row's finetune command, without its work directory.

    Args:
        row: one of `rows`.
        models_dir: folder of the pre-trained models.
        tasks_dir: folder of the tasks.
        configs: result of write_configurations.
        vocab_file: the vocabulary.
        seed: seed of the first run of a row.
        most_examples: most training examples; 0 for as many as the task has.
    """
    name, task_name, start, *number = row.split(":")
    station, task = STATIONS[name], {**TASKS, **FEW_LABELS}[task_name]
    num_examples = min(task.num_examples, most_examples or task.num_examples)
    given = {
        "bias_correction": True,
        "global_batch_size": _BATCH_SIZE,
        "max_train_examples": num_examples,
        "num_train_epochs": float(task.num_epochs),
        "seed": seed + int(*number or [1]) - 1,
        **task.flags,
        **{name: os.path.join(tasks_dir, task.flags[name]) for name in ("data_dir", "test_file") if name in task.flags},
        **station.finetuning,
        **(station.of_tags if task.is_tagging else station.of_texts),
    }
    if start == RANDOM:
        given = {flag: value for flag, value in given.items() if flag not in _ONLY_PRETRAINED}
    elif name == "ULMFiT":
        num_steps = task.num_steps(num_examples)
        given["gradual_unfreezing"] = max(1, num_steps // 8)
        given["mlm_tuning_steps"] = min(_LM_TUNING_STEPS, num_steps)
    return {**given, **_start_of(station, start, models_dir, configs, vocab_file)}


def _start_of(station: Station, start, models_dir, configs, vocab_file):
    """The flags that name the first weights. A random start has the same model."""
    model = os.path.join(models_dir, station.model)
    if station.verb == "learn_vectors":
        vectors = {"init_vectors": model} if start == PRETRAINED else {"unknown_vectors": "random"}
        return {"config": configs[station.config], "vocab_file": vocab_file, **vectors}
    return {"init_checkpoint": model, "random_init": start == RANDOM}
