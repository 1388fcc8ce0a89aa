"""Names that stand for ways of making examples; without TensorFlow, so that flags can list them at once."""

OBJECTIVES = ("nsp", "sop", "none")
MASKINGS = ("piece", "whole_word", "span", "lexicon", "segmented")
