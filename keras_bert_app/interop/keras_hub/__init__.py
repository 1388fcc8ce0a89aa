"""Reads and writes KerasHub's presets."""
