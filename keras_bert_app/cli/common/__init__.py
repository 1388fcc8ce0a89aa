"""Parts that several commands share: start-up, flags and input text."""
