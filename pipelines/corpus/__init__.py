"""Prepared corpora: deduplication, shards, manifest and report."""
