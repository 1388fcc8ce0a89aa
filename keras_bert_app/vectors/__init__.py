"""Sentence vectors of whole files, and the search for the nearest of them."""
