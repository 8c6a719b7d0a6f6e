"""Batch migration: thousands to millions of legacy files and rows become one collection, or a tree of records."""
