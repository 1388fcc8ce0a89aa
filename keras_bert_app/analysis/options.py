"""What analyses can be told; each reads what concerns it (registry: NEEDS)."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of `analyze`.

    Attributes:
        init_checkpoint: the model that is looked into, in any layout; a workdir may stand in its place (registry: MODEL_FROM).
        text, text_pair: what to look at. input_file: texts, one a line. train_file, dev_file: CoNLL-U. ner_train_file,
            ner_dev_file: CoNLL-2003's columns. pairs_file: minimal pairs, endings_file: beginnings with their endings,
            both as their modules say. workdir: of a fine-tuned run. words: to look up in input_file.
        layers: whose vectors to write: 0 the embeddings' output, -1 the last; the default is that of
            google-research/bert's extract_features.py. max_sentences: of any file, its first ones; 0 for all, -1 for as
            many as the analysis takes by itself. num_seeds: of probes and of random baselines. probe_rank: dimensions that the
            structural probe maps to. prune_percent: share of the heads that are removed. seed: the first of them.
    """

    init_checkpoint: str = ""
    text: str = ""
    text_pair: str = ""
    input_file: str = ""
    train_file: str = ""
    dev_file: str = ""
    ner_train_file: str = ""
    ner_dev_file: str = ""
    pairs_file: str = ""
    endings_file: str = ""
    workdir: str = ""
    words: tuple = ()
    layers: tuple = ("-1", "-2", "-3", "-4")
    max_sentences: int = -1
    num_seeds: int = 3
    probe_rank: int = 64
    prune_percent: int = 50
    seed: int = 0

    def most_sentences(self, by_itself=0):
        """How many sentences of a file to read, 0 for all. Args: by_itself: what the analysis takes where none is asked for."""
        return by_itself if self.max_sentences < 0 else self.max_sentences
