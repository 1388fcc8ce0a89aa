"""Families of tasks: one module for each kind of answer."""
