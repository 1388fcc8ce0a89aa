"""Makes masked batches from text with Hugging Face's transformers, for pretraining_throughput.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt. A request is one pass over the
text.

The steps are those of transformers' examples/pytorch/language-modeling/run_mlm.py. It tokenizes a thousand lines at a
time with special tokens and a special-tokens mask. It joins all pieces and cuts them into rows of max_seq_length. A
DataLoader collates the rows with DataCollatorForLanguageModeling. run_mlm.py keeps rows on disk between the steps; this
script does not. The examples have no segment pairs and no next-sentence labels, and their order is that of the text.
"""

import os
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

PACKAGES = ("torch", "transformers", "tokenizers")
_LINES_AT_A_TIME = 1000  # the default of datasets.map


class Rows(torch.utils.data.IterableDataset):
    """Rows of max_seq_length pieces. Worker w of n takes every n-th group of a thousand lines."""

    def __init__(self, input_files, tokenizer, max_seq_length):
        self._input_files, self._tokenizer, self._max_seq_length = input_files, tokenizer, max_seq_length

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number, lines in enumerate(self._groups_of_lines()):
            if number % step == first:
                yield from self._cut(self._tokenizer(lines, return_special_tokens_mask=True))

    def _groups_of_lines(self):
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

    def _cut(self, encodings):
        """Joins and cuts like group_texts of run_mlm.py, which drops the remainder of each group of lines."""
        joined = {name: [value for values in encodings[name] for value in values] for name in encodings}
        size = self._max_seq_length
        for start in range(0, len(joined["input_ids"]) - size + 1, size):
            yield {name: values[start : start + size] for name, values in joined.items()}


def answer(request):
    """The answer to a request; see the module's docstring."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if request["workers"] else "true"
    tokenizer = transformers.BertTokenizerFast(request["vocab_file"], do_lower_case=request["do_lower_case"])
    if len(tokenizer) != request["vocab_size"]:
        raise ValueError(f"transformers read {len(tokenizer)} pieces of vocab_file; expected {request['vocab_size']}")
    tokenizer.model_max_length = 1 << 30  # prevents a warning for each long line; rows are cut afterwards
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
    # The workers have ended, so os.times includes their CPU time.
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": sum(os.times()[:4]) - cpu_before,
        "examples": rows,
        "real_tokens": real_tokens,
        "labels": labels,
    }
