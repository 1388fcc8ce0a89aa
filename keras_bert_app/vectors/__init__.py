"""Sentence vectors of whole files, and the nearest among them."""
