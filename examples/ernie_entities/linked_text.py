"""Texts in which a symbol behind each mention names its entity, and the vectors of these symbols."""

import json
import os
import random

import numpy as np

from examples.common import run
from examples.ernie_entities.entities import mentions, nearer_share, transe
from pipelines import BertTokenizer

_SIZE = 64  # numbers of a vector of TransE


class Writer:
    """Texts as symbols: the pieces of a WordPiece vocabulary, and a symbol behind each mention of an entity."""

    def __init__(self, directory, training, entities):
        text, vocab_file = f"{directory}/text.jsonl", f"{directory}/pieces.txt"
        if not os.path.exists(vocab_file):
            with open(text, "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": "\n".join(lines)}) + "\n" for _, lines in training)
            run("learn_vocab", input_files=text, vocab_file=vocab_file, vocab_size=8000)
        self.tokenizer = BertTokenizer(vocab_file)
        self.entities, self.draw = set(entities), random.Random(0)
        # A symbol must not begin with ##.
        self.pieces = [piece.replace("##", "+", 1) if piece[2:] else piece for piece in self.tokenizer.vocabulary]

    def of_articles(self, articles, share=1.0):
        """Yields for each article [(symbols, is part of a mention)] of its lines. See symbols."""
        for start in range(0, len(articles), 100):
            chunk = articles[start : start + 100]
            owns = [own for own, lines in chunk for _ in lines]
            rows = self.symbols([line for _, lines in chunk for line in lines], owns, share)
            yield from ([next(rows) for _ in lines] for _, lines in chunk)

    def symbols(self, lines, owns=None, share=1.0):
        """Yields (symbols, is part of a mention) of each line.

        Args:
            lines: list of str.
            owns: list of str. The title of each line's article, which the line does not mention.
            share: float. The share of the mentions that have the symbol of their entity behind them.
        """
        ids, _, _, starts, ends = (values.to_list() for values in self.tokenizer.tokenize_with_offsets(lines))
        for own, line, row, begins, stops in zip(owns or [""] * len(lines), lines, ids, starts, ends, strict=True):
            upcoming, written, is_mention = mentions(line, self.entities - {own}), [], []
            for id, begin, stop in zip(row, begins, stops, strict=True):
                while upcoming and upcoming[0][1] <= begin:
                    upcoming.pop(0)
                inside = bool(upcoming) and begin >= upcoming[0][0] and stop <= upcoming[0][1]
                written.append(self.pieces[id])
                is_mention.append(inside)
                if inside and stop == upcoming[0][1]:
                    name = upcoming.pop(0)[2]
                    if self.draw.random() < share:
                        written.append(symbol_of(name))
                        is_mention.append(True)
            yield written, is_mention


def symbol_of(entity):
    return f"<{entity.replace(' ', '_')}>"


def is_entity(symbol):
    return symbol.startswith("<") and len(symbol) > 1


def without_entities(symbols):
    return [symbol for symbol in symbols if not is_entity(symbol)]


def write_vectors(directory, entities, edges, of_held_out, seed):
    """Writes the vectors of TransE, and the same vectors in another order."""
    if os.path.exists(f"{directory}/vectors-{seed}.txt"):
        return
    vectors, _ = transe(edges, len(entities), _SIZE, seed)
    share = nearer_share(vectors, edges, of_held_out)
    print(
        f"TransE, seed {seed}: two entities of a held-out article are nearer than a third one: {share:.3f}; chance 0.5"
    )
    shuffled = np.random.default_rng(seed).permutation(len(entities))
    for name, rows in ((f"shuffled-{seed}.txt", vectors[shuffled]), (f"vectors-{seed}.txt", vectors)):
        with open(f"{directory}/{name}.part", "w", encoding="utf-8") as file:
            for entity, vector in zip(entities, rows, strict=True):
                file.write(f"{symbol_of(entity)} {' '.join(f'{value:.5f}' for value in vector)}\n")
        os.replace(f"{directory}/{name}.part", f"{directory}/{name}")
