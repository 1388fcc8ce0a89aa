"""google-research/bert's create_pretraining_data as a process: run by the pretraining_* benchmarks, not by hand.

    GOOGLE_ENV/bin/python benchmarks/data/oracle_google_pretraining_data.py

The interpreter is one with benchmarks/requirements-google.txt; only that package, its requirements and the standard
library are imported. A line of JSON on stdin is a request, a line of JSON on stdout its answer; the end of stdin ends
it. First of all comes one line with the version.

Every request has input_files, vocab_file, do_lower_case, max_seq_length, max_predictions_per_seq, masked_lm_prob,
short_seq_prob, dupe_factor and seed. With "arrays_file", the instances of create_training_instances are written there
(see _arrays). Without it, the run is that of the script's main, TFRecord file included. "seconds" and "cpu_seconds"
run from opening the text to the instances, or to the closed file.
"""

import importlib.metadata
import json
import os
import random
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer

import numpy as np
from absl import flags
from bert import create_pretraining_data, tokenization


def _instances(request, tokenizer):
    return create_pretraining_data.create_training_instances(
        request["input_files"],
        tokenizer,
        request["max_seq_length"],
        request["dupe_factor"],
        request["short_seq_prob"],
        request["masked_lm_prob"],
        request["max_predictions_per_seq"],
        random.Random(request["seed"]),
    )


def _arrays(instances, tokenizer, max_seq_length, max_predictions_per_seq):
    """What the model is shown, and the truth, as arrays.

    Returns:
        dict of int32: input_word_ids, input_type_ids [N, S], lengths [N], masked_lm_positions, masked_lm_ids [N, P],
        num_masked [N], next_sentence_labels [N].
    """
    num_rows = len(instances)
    wide, narrow = (num_rows, max_seq_length), (num_rows, max_predictions_per_seq)
    arrays = {
        "input_word_ids": wide,
        "input_type_ids": wide,
        "lengths": (num_rows,),
        "masked_lm_positions": narrow,
        "masked_lm_ids": narrow,
        "num_masked": (num_rows,),
        "next_sentence_labels": (num_rows,),
    }
    arrays = {name: np.zeros(shape, np.int32) for name, shape in arrays.items()}
    for row, instance in enumerate(instances):
        length, masked = len(instance.tokens), len(instance.masked_lm_positions)
        arrays["input_word_ids"][row, :length] = tokenizer.convert_tokens_to_ids(instance.tokens)
        arrays["input_type_ids"][row, :length] = instance.segment_ids
        arrays["lengths"][row] = length
        arrays["masked_lm_positions"][row, :masked] = instance.masked_lm_positions
        arrays["masked_lm_ids"][row, :masked] = tokenizer.convert_tokens_to_ids(instance.masked_lm_labels)
        arrays["num_masked"][row] = masked
        arrays["next_sentence_labels"][row] = instance.is_random_next
    return arrays


def _answer(request):
    tokenizer = tokenization.FullTokenizer(request["vocab_file"], do_lower_case=request["do_lower_case"])
    started, cpu_before = time.perf_counter(), time.process_time()
    instances = _instances(request, tokenizer)
    if "arrays_file" in request:
        seconds = time.perf_counter() - started
        np.savez(
            request["arrays_file"],
            **_arrays(instances, tokenizer, request["max_seq_length"], request["max_predictions_per_seq"]),
        )
    else:
        with tempfile.TemporaryDirectory() as directory:
            create_pretraining_data.write_instance_to_example_files(
                instances,
                tokenizer,
                request["max_seq_length"],
                request["max_predictions_per_seq"],
                [os.path.join(directory, "examples.tfrecord")],
            )
            seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu_before,
        "examples": len(instances),
        "real_tokens": sum(len(instance.tokens) for instance in instances),
        "labels": sum(len(instance.masked_lm_positions) for instance in instances),
    }


def main():
    flags.FLAGS(sys.argv[:1])  # the tokenizer reads preserve_unused_tokens, which is off
    print(json.dumps({"bert-tensorflow": importlib.metadata.version("bert-tensorflow")}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
