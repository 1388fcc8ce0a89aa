"""Masked pre-training examples: pairs, packing, masking, and the streams of them."""
