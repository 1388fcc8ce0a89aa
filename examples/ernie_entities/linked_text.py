"""Texts in which a symbol behind each mention names its entity."""

import json
import os

from examples.common import run
from examples.ernie_entities.entities import mentions
from pipelines import BertTokenizer


class Writer:
    """Texts as symbols: the pieces of a WordPiece vocabulary, and a symbol behind each mention of an entity."""

    def __init__(self, directory, training, entities):
        text, vocab_file = f"{directory}/text.jsonl", f"{directory}/pieces.txt"
        if not os.path.exists(vocab_file):
            with open(text, "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": "\n".join(lines)}) + "\n" for _, lines in training)
            run("learn_vocab", input_files=text, vocab_file=vocab_file, vocab_size=8000)
        self.tokenizer = BertTokenizer(vocab_file)
        self.entities = set(entities)
        # A symbol must not begin with ##.
        self.pieces = [piece.replace("##", "+", 1) if piece[2:] else piece for piece in self.tokenizer.vocabulary]

    def symbols(self, lines, own=""):
        """[(symbols, is part of a mention)] of each line. An article does not mention its own title."""
        names = self.entities - {own}
        ids, _, _, starts, ends = (values.to_list() for values in self.tokenizer.tokenize_with_offsets(lines))
        for line, row, begins, stops in zip(lines, ids, starts, ends, strict=True):
            found, written, is_mention = mentions(line, names), [], []
            for id, begin, stop in zip(row, begins, stops, strict=True):
                while found and found[0][1] <= begin:
                    found.pop(0)
                inside = bool(found) and begin >= found[0][0] and stop <= found[0][1]
                written.append(self.pieces[id])
                is_mention.append(inside)
                if inside and stop == found[0][1]:
                    written.append(symbol_of(found.pop(0)[2]))
                    is_mention.append(True)
            yield written, is_mention


def symbol_of(entity):
    return f"<{entity.replace(' ', '_')}>"


def is_entity(symbol):
    return symbol.startswith("<") and len(symbol) > 1


def without_entities(symbols):
    return [symbol for symbol in symbols if not is_entity(symbol)]
