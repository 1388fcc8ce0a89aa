"""Hugging Face's way from text to masked batches as a process: run by benchmarks.data.pretraining_throughput, not by hand.

    HF_ENV/bin/python benchmarks/data/peer_hf_pretraining_data.py

The interpreter is one with benchmarks/requirements-hf.txt; nothing else is imported. A line of JSON on stdin is a
request, a line of JSON on stdout its answer; the first line has the versions. Every request is one pass over the
text.

The steps are those of transformers' examples/pytorch/language-modeling/run_mlm.py: lines are tokenized by the
thousand with special tokens and a special-tokens mask, all pieces are laid end to end and cut into rows of
max_seq_length, and a DataLoader collates rows with DataCollatorForLanguageModeling. That script keeps rows on disk
between the steps; here they go straight on. There are no segment pairs, no next-sentence labels and no shuffling.
"""

import importlib.metadata
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

_LINES_AT_A_TIME = 1000  # datasets.map's


class Rows(torch.utils.data.IterableDataset):
    """Rows of max_seq_length pieces; worker w of n takes every n-th thousand lines."""

    def __init__(self, input_files, tokenizer, max_seq_length):
        self._input_files, self._tokenizer, self._max_seq_length = input_files, tokenizer, max_seq_length

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number, lines in enumerate(self._thousands()):
            if number % step == first:
                yield from self._grouped(self._tokenizer(lines, return_special_tokens_mask=True))

    def _thousands(self):
        lines = []
        for path in self._input_files:
            with open(path, encoding="utf-8") as stream:
                for line in stream:
                    lines.append(line)
                    if len(lines) == _LINES_AT_A_TIME:
                        yield lines
                        lines = []
        if lines:
            yield lines

    def _grouped(self, encodings):
        """As group_texts there: what is left at the end of a thousand lines is dropped."""
        joined = {name: [value for values in encodings[name] for value in values] for name in encodings}
        size = self._max_seq_length
        for start in range(0, len(joined["input_ids"]) - size + 1, size):
            yield {name: values[start : start + size] for name, values in joined.items()}


def _answer(request):
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if request["workers"] else "true"
    tokenizer = transformers.BertTokenizerFast(request["vocab_file"], do_lower_case=request["do_lower_case"])
    if len(tokenizer) != request["vocab_size"]:
        raise ValueError(f"{len(tokenizer)} pieces were read of {request['vocab_size']}")
    tokenizer.model_max_length = 1 << 30  # rows are cut afterwards; without a warning about every line
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=request["masked_lm_prob"])
    started, cpu_before = time.perf_counter(), sum(os.times()[:4])
    loader = torch.utils.data.DataLoader(
        Rows(request["input_files"], tokenizer, request["max_seq_length"]),
        batch_size=request["batch_size"],
        collate_fn=collator,
        num_workers=request["workers"],
    )
    rows = real_tokens = labels = 0
    for batch in loader:
        rows += len(batch["input_ids"])
        real_tokens += int(batch["attention_mask"].sum())
        labels += int((batch["labels"] != -100).sum())
    # The workers have been waited for, so that the times of children hold theirs.
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": sum(os.times()[:4]) - cpu_before,
        "examples": rows,
        "real_tokens": real_tokens,
        "labels": labels,
    }


def main():
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers")}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
