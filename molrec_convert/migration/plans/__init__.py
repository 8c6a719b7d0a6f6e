"""The plan of a migration: settings, rules, parts."""
