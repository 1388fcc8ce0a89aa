"""The batches that a TPU is fed, looked at on the host: one shape for all, int32 and float32, whatever makes them."""

import dataclasses
import itertools
import os
import tempfile

from benchmarks.tpu import tpu_examples
from benchmarks.tpu.tpu_programs import Program, pretraining_run, pretraining_specs
from keras_bert_app.tasks import batches
from keras_bert_app.training import pretraining_data
from pipelines.choices import MASKINGS, OBJECTIVES
from pipelines.corpus import preparation
from pipelines.examples.dataset import pretraining_dataset

_NUM_BATCHES = 3


def check():
    """Yields (name, whether something is wrong, line for people) of all maskings with all objectives, and all heads."""
    tokenizer = tpu_examples.tokenizer()
    with tempfile.TemporaryDirectory() as directory:
        shards = _shards(directory)
        lexicon_file = os.path.join(directory, "lexicon.txt")
        with open(lexicon_file, "w", encoding="utf-8") as file:
            file.write("green hills\nold songs\n")
        usual = pretraining_run(Program("pretrain", "tiny", 128, "bfloat16", 8))
        for masking, objective in itertools.product(MASKINGS, OBJECTIVES):
            run = dataclasses.replace(
                usual,
                masking=masking,
                sentence_objective=objective,
                lexicon_file=lexicon_file if masking == "lexicon" else "",
            )
            arguments = pretraining_data.example_arguments(run, tokenizer, lexicon_file)
            # The last batch of a pass is the one that might be smaller.
            dataset = pretraining_dataset(
                shards, tokenizer, global_batch_size=run.global_batch_size, epochs=1, **arguments
            )
            found = list(dataset)
            yield _judged(
                f"batches of {masking}, {objective}",
                found[:_NUM_BATCHES] + found[-1:],
                pretraining_specs(run),
                dataset.element_spec,
            )
    for head in tpu_examples.HEADS:
        _, _, run, features = tpu_examples.finetuning(head, max_seq_length=128, global_batch_size=3)
        found = [batch for batch, _ in itertools.islice(batches.training_batches(features, run), _NUM_BATCHES)]
        yield _judged(f"batches of {head}", found, found[0], found[0])


def _judged(name, found, expected, promised):
    """Each batch as expected; the dataset's own promise too, from which a TPU is compiled for."""
    faults = {
        f"{key} {values.dtype.name} {values.shape}"
        for batch in (*found, promised)
        for key, values in batch.items()
        if key not in expected
        or values.shape != expected[key].shape
        or values.dtype != expected[key].dtype
        or not values.shape.is_fully_defined()
        or values.dtype.name not in ("int32", "float32")
    }
    if faults:
        return name, True, f"WRONG: {', '.join(sorted(faults))}"
    return name, False, f"{len(found)} batches, {len(expected)} arrays each: static shapes, int32, float32"


def _shards(directory):
    shards = os.path.join(directory, "corpus")
    manifest = preparation.prepare_corpus(
        shards, documents=iter(tpu_examples.documents()), holdout_fraction=0.0, num_shards=2
    )
    return preparation.shard_paths(shards, manifest, "train")
