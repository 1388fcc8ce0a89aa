"""Times transformers' training step on a GPU with torch.compile, and prints a line of JSON.

python benchmarks/step/gpu_step_torch.py ROWS LENGTH all|masked [SIZE]

The environment needs torch for CUDA and transformers. The step is that of BertForPreTraining with scaled-dot-product
attention in bfloat16 (autocast), clipping at a global norm of 1, and fused AdamW. "all" computes the logits of every
position, as transformers does. "masked" computes those of the masked positions alone, as ours does. As in gpu_step,
rows are full of random ids, dropout is 0.1, and the time of a step is the median of four times ten steps. The first
seconds are those of a single step.
"""

import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import torch
import transformers

from benchmarks.common.torch_adamw import fused_adamw

_VOCABULARY = 30_522
_SIZES = {"small": (512, 4, 8), "base": (768, 12, 12), "large": (1024, 24, 16)}


def make_step(rows, length, which, size):
    """Makes a function that takes one step and returns the loss.

    Args:
        rows: int. Rows in a step.
        length: int. Tokens in a row.
        which: str. "all" or "masked": the positions whose logits the step computes.
        size: str. A key of _SIZES.
    """
    hidden, layers, heads = _SIZES[size]
    model = transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=_VOCABULARY,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            attn_implementation="sdpa",
        )
    )
    model = model.cuda().train()
    batch = _batch(rows, length)

    def loss_of(ids, mask, types, labels, positions, masked_ids, next_sentence):
        if which == "all":
            return model(
                input_ids=ids,
                attention_mask=mask,
                token_type_ids=types,
                labels=labels,
                next_sentence_label=next_sentence,
            ).loss
        outputs = model.bert(input_ids=ids, attention_mask=mask, token_type_ids=types)
        states = torch.gather(outputs.last_hidden_state, 1, positions[:, :, None].expand(-1, -1, hidden))
        cross_entropy = torch.nn.functional.cross_entropy
        masked = cross_entropy(model.cls.predictions(states).float().view(-1, _VOCABULARY), masked_ids.view(-1))
        return masked + cross_entropy(model.cls.seq_relationship(outputs.pooler_output).float(), next_sentence)

    compiled = torch.compile(loss_of)
    optimizer = fused_adamw(model, learning_rate=1e-4, weight_decay=0.01)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def _batch(rows, length):
    generator = torch.Generator().manual_seed(1)
    predictions = max(1, round(0.15 * length))
    ids, masked_ids = (
        torch.randint(0, _VOCABULARY, shape, generator=generator).cuda()
        for shape in ((rows, length), (rows, predictions))
    )
    types = torch.randint(0, 2, (rows, length), generator=generator).cuda()
    next_sentence = torch.randint(0, 2, (rows,), generator=generator).cuda()
    positions = torch.rand(rows, length, generator=generator).argsort(1)[:, :predictions].cuda()
    labels = torch.full((rows, length), -100).cuda().scatter_(1, positions, masked_ids)
    return ids, torch.ones_like(ids), types, labels, positions, masked_ids, next_sentence


def main(rows, length, which, size="base"):
    torch.set_float32_matmul_precision("high")
    step = make_step(int(rows), int(length), which, size)
    started = time.monotonic()
    step().item()
    first = time.monotonic() - started
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        for _ in range(10):
            loss = step()
        loss.item()  # waits for the GPU
        seconds.append((time.monotonic() - started) / 10)
    milliseconds = round(1e3 * statistics.median(seconds[1:]), 2)
    memory = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print(json.dumps({"milliseconds": milliseconds, "first_seconds": round(first, 1), "peak_gibibytes": memory}))


if __name__ == "__main__":
    main(*sys.argv[1:])
