"""Names of text formats, sentence objectives and kinds of masking.

The module imports nothing, so that command-line flags can list the names at once.
"""

FORMATS = ("auto", "sentences", "documents", "jsonl", "wikiextractor")
OBJECTIVES = ("nsp", "sop", "none")
MASKINGS = ("piece", "whole_word", "span", "lexicon", "segmented")
