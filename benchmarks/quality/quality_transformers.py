"""Pre-trains like transformers' run_mlm, for quality_per_minute, in an environment with benchmarks/requirements-hf.txt.

quality_per_minute starts this script with one argument, a JSON object. The script tokenizes all documents, joins them
and cuts them into rows. Every batch gets new masks. The optimizer is AdamW without weight decay.
"""

import contextlib
import itertools
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import tokenizers
import torch
import transformers
from time_budget import time_budget_of


def rows_of(path, tokenizer, length):
    """Rows of the joined documents, int64 [N, length].

    Each document has [CLS] and [SEP]. The remainder after the last whole row is dropped.

    Args:
        path: str. File with one document on each line.
        tokenizer: tokenizers.BertWordPieceTokenizer.
        length: int. Pieces in a row.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        texts = file.read().split("\n")[:-1]
    ids = []
    for at in range(0, len(texts), 1000):
        encodings = tokenizer.encode_batch(texts[at : at + 1000])
        ids += itertools.chain.from_iterable(encoding.ids for encoding in encodings)
    return torch.tensor(ids[: len(ids) // length * length]).reshape(-1, length)


def batches(rows, is_special, collator, size, seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for at in range(0, len(rows) - size + 1, size):
            yield collator(
                [
                    {"input_ids": rows[index], "special_tokens_mask": is_special[index]}
                    for index in order[at : at + size]
                ]
            )


def main(given):
    torch.manual_seed(given["seed"])
    fast = tokenizers.BertWordPieceTokenizer(given["vocab_file"], lowercase=True)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast,
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
    )
    rows = rows_of(given["documents"], fast, given["max_seq_length"])
    chosen = {
        "initializer_range": given["initializer_range"],
        "hidden_dropout_prob": given["dropout"],
        "attention_probs_dropout_prob": given["dropout"],
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**given["size"], **chosen))
    # The default of transformers' Trainer with this version of torch.
    optimizer = torch.optim.AdamW(model.parameters(), lr=given["learning_rate"], weight_decay=0.0, fused=True)
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    is_bfloat16 = given["precision"] == "bfloat16"
    model.train()
    budget, losses = time_budget_of(given), []

    def mean_loss():
        mean = sum(losses) / len(losses)
        losses.clear()
        return mean

    is_special = torch.isin(rows, torch.tensor(tokenizer.all_special_ids)).long()
    for batch in batches(rows, is_special, collator, given["batch_size"], given["seed"]):
        for group in optimizer.param_groups:
            group["lr"] = budget.rate()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if is_bfloat16 else contextlib.nullcontext():
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        budget.took_step(mean_loss)
        if budget.is_over():
            break
    model.save_pretrained(given["output_dir"])
    fast.save_model(given["output_dir"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
