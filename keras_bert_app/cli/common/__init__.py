"""Parts that several commands share: start-up, flags, input text and output files."""
