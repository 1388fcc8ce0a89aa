"""Pictures of corpora, runs and analyses.

Only this package imports matplotlib, and only when it draws.
"""
