"""The options of all analyses. Each analysis reads those that it needs (study_registry: NEEDS)."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of `analyze`.

    Attributes:
        init_checkpoint: str. The model to look into, in any layout. A workdir can replace it (study_registry:
            MODEL_FROM).
        text: str. The text to look at.
        text_pair: str. A second text, as segment B.
        input_file: str. Path of a file with one text in each line.
        train_file: str. Path of a CoNLL-U file to train probes on.
        dev_file: str. Path of a CoNLL-U file to measure on.
        ner_train_file: str. Path of a file in CoNLL-2003's columns to train probes on.
        ner_dev_file: str. Path of a file in CoNLL-2003's columns to measure on.
        pairs_file: str. Path of a file of minimal pairs (studies.minimal_pairs).
        endings_file: str. Path of a file of beginnings with their endings (studies.endings).
        workdir: str. The directory of a fine-tuned run.
        words: tuple of str. Words to look up in input_file.
        layers: tuple of str. The layers whose vectors are written: 0 is the embeddings' output, -1 the last layer.
            google-research/bert's extract_features.py has the same default.
        max_sentences: int. How many sentences to read from the start of each file. 0 reads all of them, -1 as many as
            the analysis reads by default.
        num_seeds: int. The number of seeds of probes and random baselines.
        probe_rank: int. The number of dimensions that the structural probe maps to.
        prune_percent: int. The share of heads to remove, in percent.
        seed: int. The first seed.
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

    def most_sentences(self, default: int = 0) -> int:
        """Says how many sentences of a file to read.

        Args:
            default: int. The default of the analysis if the user sets no limit.

        Returns:
            int. 0 means all sentences.
        """
        return default if self.max_sentences < 0 else self.max_sentences
