"""Analyses of an encoder: attention, probes, heads and word senses.

The module study_registry lists their names.
"""
