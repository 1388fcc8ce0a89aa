"""The source of the examples: a run, as its trainer reads them, or a corpus with a vocabulary."""

import contextlib
import typing
from collections.abc import Iterator, Sequence

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, work_directory
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import pretraining_data
from pipelines import storage
from pipelines.corpus import preparation
from pipelines.examples import mixing
from pipelines.examples.dataset import FIRST_POSITION
from pipelines.wordpiece.tokenizer import BertTokenizer


class Source(typing.NamedTuple):
    """Everything that training batches are made of.

    Attributes:
        run: PretrainingConfig, resolved.
        tokenizer: BertTokenizer.
        shards: dict corpus directory -> paths of its training shards.
        arguments: dict. The result of training.pretraining_data.example_arguments.
        checkpoints: dict step -> position in the stream of examples, for each checkpoint of the run.
        clock_shares: dict step -> share of --train_minutes that has passed, for each checkpoint of the run.
    """

    run: PretrainingConfig
    tokenizer: BertTokenizer
    shards: dict
    arguments: dict
    checkpoints: dict
    clock_shares: dict


def from_run(workdir: str) -> Source:
    """Makes the source of the run in a work directory.

    Args:
        workdir: str. A directory that `pretrain` has written.

    Returns:
        Source.

    Raises:
        UserError: the run, its vocabulary or its lexicon is missing, or the corpus is not the run's.
        DataError: the corpus is missing or not readable.
    """
    existing = ExistingRun.read(workdir)
    model_config, run = existing.config()
    run = run.resolved()
    existing.vocabulary()  # raises if vocab.txt is not the run's vocabulary
    tokenizer = tokenizer_of(work_directory.path_in(workdir, "vocab.txt"), model_config)
    manifests = _manifests(run.corpus_dir or (work_directory.path_in(workdir, "corpus"),))
    _check_same_corpus(workdir, manifests)
    starts, shares = {}, {}
    for directory in existing.checkpoints:
        with contextlib.suppress(UserError):  # a damaged checkpoint, or one that the trainer deletes at this moment
            manifest = checkpoints.read_manifest(directory, verify=False)
            starts[manifest["step"]] = tuple(manifest["position"])
            if run.train_minutes:
                shares[manifest["step"]] = manifest.get("clock", manifest["seconds"]) / (60 * run.train_minutes)
    return Source(
        run,
        tokenizer,
        _train_shards(manifests),
        pretraining_data.example_arguments(run, tokenizer, pretraining_data.lexicon_of(workdir)),
        starts,
        shares,
    )


def from_corpora(run: PretrainingConfig, vocab_file: str, tokenizer: str, do_lower_case: bool) -> Source:
    """Makes the source of one or several corpora with a vocabulary.

    Args:
        run: PretrainingConfig with corpus_dir.
        vocab_file: str. Path of the vocabulary.
        tokenizer: str. One of choices.TOKENIZERS.
        do_lower_case: bool. Whether the vocabulary is uncased.

    Returns:
        Source.
    """
    manifests = _manifests(run.corpus_dir)
    channels = {directory: tuple(manifest.get("channels", ())) for directory, manifest in manifests.items()}
    if len(set(channels.values())) > 1:
        shown = "; ".join(f"{directory}: {','.join(names) or 'none'}" for directory, names in channels.items())
        raise UserError(f"--corpus_dir: the corpora have different channels ({shown}); name them one by one")
    config = BertConfig(
        max_position_embeddings=run.max_seq_length,
        tokenizer=tokenizer,
        do_lower_case=do_lower_case,
        channels=next(iter(channels.values())) if tokenizer == "symbols" else (),
    )
    run, tokenizer = run.resolved().checked_against(config), tokenizer_of(vocab_file, config)
    return Source(
        run,
        tokenizer,
        _train_shards(manifests),
        pretraining_data.example_arguments(run, tokenizer, run.lexicon_file),
        {},
        {},
    )


def nearest_start(source: Source, step: int) -> tuple[int, tuple]:
    """Finds the last checkpoint at or before a step.

    Args:
        source: Source.
        step: int. The step.

    Returns:
        (step, position) of the checkpoint. If there is no such checkpoint: step 0 and the first position.
    """
    return max(
        ((known, position) for known, position in source.checkpoints.items() if known <= step),
        default=(0, first_position(source)),
    )


def batches(source: Source, position: tuple, step: int) -> Iterator[tuple[dict, tuple]]:
    """Yields the batches that training reads from a position on.

    A ramp that is a share of --train_minutes keeps its value at the last checkpoint at or before the step, because no
    file records the steps at which such a ramp grew.

    Args:
        source: Source.
        position: tuple of int. A position in the stream of examples.
        step: int. The number of steps that lead to the position.

    Yields:
        (dict of numpy arrays, position after the batch)
    """
    share = max((share for known, share in source.clock_shares.items() if known <= step), default=0.0)
    for batch, after in pretraining_data.training_batches(
        source.run, list(source.shards.values()), source.tokenizer, position, source.arguments, step, lambda: share
    ):
        yield {name: values.numpy() for name, values in batch.items()}, after


def first_position(source: Source) -> tuple:
    """Returns the position at the beginning of the stream of examples.

    Args:
        source: Source.
    """
    return FIRST_POSITION if len(source.shards) == 1 else mixing.first_position(len(source.shards))


def checked_position(source: Source, position: Sequence[int]) -> Sequence[int]:
    """Returns the position if the stream has it.

    Args:
        source: Source.
        position: sequence of int. The value of --position.

    Raises:
        UserError: the stream has no such position.
    """
    expected = first_position(source)
    names = "epoch,block,offset" if len(expected) == 3 else "examples" + ",epoch,block,offset" * len(source.shards)
    given = ",".join(map(str, position))
    if len(position) != len(expected) or min(position) < 0:
        raise UserError(
            f"--position={given}: expected {len(expected)} numbers of 0 or more, {names}, as in the "
            "manifest.json of a checkpoint"
        )
    for block, (directory, shards) in zip(position[-2::-3][::-1], source.shards.items(), strict=True):
        if block >= len(shards):
            raise UserError(
                f"--position={given}: names block {block}; expected less than {len(shards)}, the number of shards of "
                f"{directory}"
            )
    return position


def _manifests(corpus_dirs):
    # This compares only the sizes of files, which is quick. The trainer compares the contents.
    return {directory: preparation.load_manifest(directory, verify=False) for directory in corpus_dirs}


def _train_shards(manifests):
    return {
        directory: preparation.shard_paths(directory, manifest, "train") for directory, manifest in manifests.items()
    }


def _check_same_corpus(workdir, manifests):
    path = work_directory.path_in(workdir, "corpus.json")
    if not storage.exists(path):
        return
    shards_at_start = read_json(path).get("shards")
    shards = [
        [shard["file"], shard["sha256"]]
        for manifest in manifests.values()
        for split in ("train", "heldout")
        for shard in manifest[split]["shards"]
    ]
    if shards_at_start is not None and shards_at_start != shards:
        raise UserError(
            f"{', '.join(manifests)}: holds another corpus than the run in --workdir={workdir} began with; "
            "put that corpus back"
        )
