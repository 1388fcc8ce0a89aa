"""Names that stand for layouts of text and ways of making examples; loads nothing, so that flags can list them at once."""

FORMATS = ("auto", "sentences", "documents", "jsonl", "wikiextractor")
OBJECTIVES = ("nsp", "sop", "none")
MASKINGS = ("piece", "whole_word", "span", "lexicon", "segmented")
