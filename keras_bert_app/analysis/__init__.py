"""Analyses of an encoder: attention, probes, heads and word senses. See study_registry for their names."""
