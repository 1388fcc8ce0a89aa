"""Pre-trains like transformers' run_mlm or run_clm, for quality_per_minute.

It needs an environment with benchmarks/requirements-hf.txt.

quality_per_minute starts this script with one argument, a JSON object. The script tokenizes all documents, joins them
and cuts them into rows. A BERT gets new masks in every batch; a GPT2 predicts every piece. The optimizer is AdamW
without weight decay.
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
    """Yields batches without end. A collator that masks nothing gets is_special None."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for at in range(0, len(rows) - size + 1, size):
            examples = [{"input_ids": rows[index]} for index in order[at : at + size]]
            if is_special is not None:
                for example, index in zip(examples, order[at : at + size], strict=True):
                    example["special_tokens_mask"] = is_special[index]
            yield collator(examples)


def bert_of(given):
    """A BertForMaskedLM with the size and settings of a contender."""
    dropouts = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), given["dropout"])
    config = transformers.BertConfig(**given["size"], **_chosen(given, dropouts))
    return transformers.BertForMaskedLM(config)


def gpt2_of(given):
    """A GPT2LMHeadModel with the size and settings of a contender."""
    names = {
        "vocab_size": "vocab_size",
        "num_hidden_layers": "n_layer",
        "hidden_size": "n_embd",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
    }
    size = {names[name]: number for name, number in given["size"].items() if name in names}
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), given["dropout"])
    config = transformers.GPT2Config(
        **size, **_chosen(given, dropouts), bos_token_id=None, eos_token_id=None, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config)


def _chosen(given, dropouts):
    """The settings of a configuration that are not its defaults."""
    chosen = {"initializer_range": given["initializer_range"], **dropouts}
    return {name: value for name, value in chosen.items() if value is not None}


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
    is_causal = given["language_model"] == "causal"
    model = (gpt2_of if is_causal else bert_of)(given)
    # The default of transformers' Trainer with this version of torch.
    optimizer = torch.optim.AdamW(model.parameters(), lr=given["learning_rate"], weight_decay=0.0, fused=True)
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=not is_causal, mlm_probability=0.15)
    is_bfloat16 = given["precision"] == "bfloat16"
    model.train()
    budget, losses = time_budget_of(given), []

    def mean_loss():
        mean = sum(losses) / len(losses)
        losses.clear()
        return mean

    is_special = None if is_causal else torch.isin(rows, torch.tensor(tokenizer.all_special_ids)).long()
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
