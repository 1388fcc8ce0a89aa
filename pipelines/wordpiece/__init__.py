"""WordPiece: normalization, the tokenizer, offsets, and vocabularies."""
