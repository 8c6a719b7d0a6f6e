"""Summaries: what a person wants to see of a record or a collection first, as data, text and HTML."""
