"""Names of the choices that flags list: formats, segmenters, tokenizers, objectives, kinds of masking and others.

The module imports nothing, so that command-line flags can list the names at once.
"""

FASTA_FORMATS = ("fasta3", "fasta4", "fasta5", "fasta6")  # sequences as runs of this many letters
SYMBOL_FORMATS = ("symbols", *FASTA_FORMATS)
FORMATS = ("auto", "sentences", "paragraphs", "documents", "jsonl", "wikiextractor", *SYMBOL_FORMATS)
SEGMENTERS = ("none", "jieba")
TOKENIZERS = ("wordpiece", "symbols")
POSITIONS = ("tokens", "lines")
TOKEN_VECTORS = ("", "groups", "given")
FUSIONS = ("replace", "add", "gate")
LANGUAGE_MODELS = ("masked", "causal", "bidirectional")
OBJECTIVES = ("nsp", "sop", "none")
MASKINGS = ("piece", "whole_word", "span", "lexicon", "segmented")
