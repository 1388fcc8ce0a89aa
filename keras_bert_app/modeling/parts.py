"""What a BERT for pre-training is made of; only the encoder is in every checkpoint of the field."""

PARTS = ("encoder", "pooler", "masked_lm", "next_sentence")
