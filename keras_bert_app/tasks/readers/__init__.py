"""Readers of labelled files: one module for each file format or benchmark."""
