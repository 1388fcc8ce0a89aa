"""The work directory of a run: config.json, vocab.txt, corpus/, checkpoints/, metrics.jsonl, events/.

config.json holds the model's keys at the top, as Google and Hugging Face write them, and the run's keys under
"pretraining" or "finetuning". This module loads TensorFlow for remote directories only.
"""

import dataclasses
import hashlib
import json
import os
import re
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_json, read_whole
from keras_bert_app.runs import run_notes
from pipelines import storage

CHECKPOINT_NAME = re.compile(r"(step|best)-(\d+)/?$")
# This file is written last. In an object store it marks a whole checkpoint.
CHECKPOINT_MANIFEST = "manifest.json"
_MAX_VOCABULARY_BYTES = 100_000_000
_FROM_FILES = ("token_vectors", "token_vectors_shape")  # keys of BertConfig that follow from files of the run


@dataclasses.dataclass(frozen=True)
class ExistingRun:
    """The content of a work directory at the start of a command, which reads it once.

    Attributes:
        directory: the work directory.
        values: dict of config.json; {} if no run was started.
        checkpoints: directories of the whole checkpoints that the run may go on from, oldest first.
        unfinished: directories of checkpoints whose saving was interrupted.
    """

    directory: str
    values: dict[str, Any]
    checkpoints: tuple[str, ...]
    unfinished: tuple[str, ...]

    @classmethod
    def read(cls, directory: str) -> "ExistingRun":
        """Reads a work directory, which need not exist.

        Args:
            directory: the work directory.

        Raises:
            UserError: config.json is not a JSON object, or has values that no run writes.
        """
        directory, values = str(directory), {}
        if is_started(directory):
            path = path_in(directory, "config.json")
            values = read_json(path, folder=directory)
            run_notes.check(path, values)
        return cls(directory, values, tuple(checkpoint_directories(directory)), tuple(unfinished(directory)))

    def check_unchanged(self) -> None:
        """Checks that the checkpoints are still the same. Call it after the directory is locked.

        Raises:
            UserError: another process has saved or removed a checkpoint since this command read the directory.
        """
        now = tuple(checkpoint_directories(self.directory))
        if now != self.checkpoints:
            names = [[os.path.basename(path) for path in paths[-1:]] or ["none"] for paths in (self.checkpoints, now)]
            raise UserError(
                f"--workdir={self.directory}: its newest checkpoint was {names[0][0]} when this command looked and is "
                f"{names[1][0]} now, so another run was at work; give the same command again"
            )

    @property
    def is_started(self) -> bool:
        """Whether a run has written its configuration."""
        return bool(self.values)

    @property
    def has_begun(self) -> bool:
        """Whether the run has saved a checkpoint. Before that, it may start again with other values."""
        return bool(self.checkpoints)

    def config(self, run_class: type[TrainingConfig] = PretrainingConfig) -> tuple[BertConfig, TrainingConfig]:
        """(BertConfig, configuration of the run).

        Args:
            run_class: PretrainingConfig or FinetuningConfig.

        Raises:
            UserError: the directory holds no run of this class, or a value is not valid.
        """
        path = path_in(self.directory, "config.json")
        if run_class.KEY not in self.values:
            raise UserError(
                f"{path}: has no key {run_class.KEY!r}, so it is not a run; start one in another --workdir, "
                f"with --init_checkpoint={self.directory} for its weights"
            )
        try:
            return BertConfig.from_dict(self.values), run_class.from_dict(self.values[run_class.KEY])
        except (ValueError, TypeError, OverflowError) as error:  # such as a number where a list is expected
            raise UserError(f"{path}: {error}") from None

    def note(self, name: str) -> Any:
        """The value of a key of config.json that every run of this kind has.

        Args:
            name: the key.

        Raises:
            UserError: the key is missing.
        """
        if name not in self.values:
            path = path_in(self.directory, "config.json")
            raise UserError(f"{path}: has no key {name!r}; put back the file that the run wrote")
        return self.values[name]

    def vocabulary(self) -> bytes:
        """The content of vocab.txt.

        Raises:
            UserError: the file is missing, or is not the file that the run began with.
        """
        return self._vocabulary_file("vocab.txt", "vocab_sha256")

    def target_vocabulary(self) -> bytes | None:
        """The content of target_vocab.txt; None if the target texts have no vocabulary of their own.

        Raises:
            UserError: the file is missing, or is not the file that the run began with.
        """
        if "target_vocab_sha256" not in self.values:
            return None
        return self._vocabulary_file("target_vocab.txt", "target_vocab_sha256")

    def _vocabulary_file(self, name, key):
        """The content of a vocabulary file whose sha256 is a value of config.json."""
        path, expected = path_in(self.directory, name), self.values.get(key)
        if not storage.exists(path):
            raise UserError(f"{path}: is missing; put back the vocabulary that the run began with")
        content = read_whole(path, _MAX_VOCABULARY_BYTES, self.directory)
        actual = hashlib.sha256(content).hexdigest()
        if actual != expected:
            raise UserError(
                f"{path}: is not the vocabulary that the run began with (sha256 {str(expected)[:12]} expected, "
                f"{actual[:12]} found); put back the original file"
            )
        return content

    def resumed(
        self,
        wanted_model: BertConfig | None,
        wanted_run: dict[str, Any],
        vocabulary_bytes: bytes | None = None,
        run_class: type[TrainingConfig] = PretrainingConfig,
    ) -> tuple[BertConfig, TrainingConfig]:
        """The configuration of a resumed run, with the wanted values that may change on resume.

        Args:
            wanted_model: BertConfig, or None for the run's.
            wanted_run: dict of the fields that the user has set.
            vocabulary_bytes: content of the user's vocabulary file, or None.
            run_class: PretrainingConfig or FinetuningConfig.

        Returns:
            (BertConfig, configuration of the run).

        Raises:
            UserError: a wanted value contradicts the run's; the message names both.
        """
        model_config, run = self.config(run_class)
        holds, advice = (
            f"--workdir={self.directory} holds a run",
            "take another --workdir, or leave the flag out to resume; the flags that may change are "
            + ", ".join(f"--{name}" for name in sorted(run.CHANGEABLE_ON_RESUME)),
        )
        if wanted_model is not None:
            for field in dataclasses.fields(BertConfig):
                ours, theirs = getattr(model_config, field.name), getattr(wanted_model, field.name)
                if ours != theirs and not (field.name in _FROM_FILES and theirs == field.default):
                    raise UserError(f"{holds} with {field.name} {ours!r}, but {theirs!r} was given; {advice}")
        vocab_sha256 = self.values.get("vocab_sha256")
        if vocabulary_bytes is not None and hashlib.sha256(vocabulary_bytes).hexdigest() != vocab_sha256:
            raise UserError(f"{holds} with another vocabulary than --vocab_file; {advice}")
        for name in run.contradictions(wanted_run):
            raise UserError(
                f"{holds} with {name}={getattr(run, name)}, but --{name}={wanted_run[name]} was given; {advice}"
            )
        return model_config, run.changed_by(wanted_run)


def path_in(workdir: str | os.PathLike, *names: str) -> str:
    """A path below the work directory, local or remote.

    Args:
        workdir: the work directory.
        names: parts of the path.
    """
    return os.path.join(str(workdir), *names)


def is_started(workdir: str | os.PathLike) -> bool:
    """Whether the directory holds a run.

    Args:
        workdir: the directory.

    Raises:
        UserError: config.json is not a regular file.
    """
    path = path_in(workdir, "config.json")
    check_in_folder(path, workdir)
    return storage.exists(path)


def checkpoint_directories(workdir: str | os.PathLike, kind: str = "step") -> list[str]:
    """Directories of the whole checkpoints of a work directory, oldest first.

    Args:
        workdir: the work directory.
        kind: "step" for those that a run may go on from, "best" for the best weights of a fine-tuning run, see
            checkpoints.best_checkpoints.
    """
    root = path_in(workdir, "checkpoints")
    names = [
        name for name in storage.list_directory(root) if (match := CHECKPOINT_NAME.match(name)) and match[1] == kind
    ]
    names.sort(key=lambda name: int(CHECKPOINT_NAME.match(name)[2]))  # steps beyond 99,999,999 have more digits
    directories = [os.path.join(root, name) for name in names]
    return [each for each in directories if _has_manifest(each)] if storage.is_remote(root) else directories


def unfinished(workdir: str | os.PathLike) -> list[str]:
    """Directories of checkpoints whose saving or removal was interrupted.

    Args:
        workdir: the work directory.
    """
    root = path_in(workdir, "checkpoints")
    return [
        os.path.join(root, name)
        for name in storage.list_directory(root)
        if name.startswith("writing-")
        or (storage.is_remote(root) and CHECKPOINT_NAME.match(name) and not _has_manifest(os.path.join(root, name)))
    ]


def _has_manifest(directory):
    return storage.exists(os.path.join(directory, CHECKPOINT_MANIFEST))


def write_config(
    workdir: str | os.PathLike,
    model_config: BertConfig,
    run: TrainingConfig,
    vocabulary_bytes: bytes,
    notes: dict[str, Any] | None = None,
) -> None:
    """Writes vocab.txt, then config.json. A directory with config.json holds a run.

    Args:
        workdir: the work directory.
        model_config: BertConfig.
        run: configuration of the run.
        vocabulary_bytes: content of the vocabulary file.
        notes: further keys of config.json.

    Raises:
        UserError: the directory has another vocab.txt, but no run.
    """
    storage.make_directories(workdir)
    path, earlier = path_in(workdir, "vocab.txt"), None
    if storage.exists(path):
        with storage.open_file(path) as file:
            earlier = file.read()
        if earlier != vocabulary_bytes and not is_started(workdir):
            raise UserError(f"{path}: is there already and holds another vocabulary; take another --workdir")
    if earlier != vocabulary_bytes:
        storage.write_whole(path, vocabulary_bytes)
    values = {
        **model_config.to_dict(),
        "vocab_sha256": hashlib.sha256(vocabulary_bytes).hexdigest(),
        **(notes or {}),
        run.KEY: run.to_dict(),
    }
    storage.write_whole(path_in(workdir, "config.json"), json.dumps(values, indent=2) + "\n")


def rewrite_run(existing: ExistingRun, run: TrainingConfig) -> None:
    """Writes the configuration of a run into its config.json, if a value has changed.

    Args:
        existing: ExistingRun.
        run: configuration of the run.
    """
    if existing.values.get(run.KEY) != json.loads(json.dumps(run.to_dict())):
        text = json.dumps({**existing.values, run.KEY: run.to_dict()}, indent=2) + "\n"
        storage.write_whole(path_in(existing.directory, "config.json"), text)
