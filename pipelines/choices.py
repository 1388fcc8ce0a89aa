"""Names of text formats, segmenters, tokenizers, language models, sentence objectives and kinds of masking.

The module imports nothing, so that command-line flags can list the names at once.
"""

FORMATS = ("auto", "sentences", "paragraphs", "documents", "jsonl", "wikiextractor", "symbols")
SEGMENTERS = ("none", "jieba")
TOKENIZERS = ("wordpiece", "symbols")
LANGUAGE_MODELS = ("masked", "causal", "bidirectional")
OBJECTIVES = ("nsp", "sop", "none")
MASKINGS = ("piece", "whole_word", "span", "lexicon", "segmented")
