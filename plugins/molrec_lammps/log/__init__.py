"""Logs and averages over time."""
