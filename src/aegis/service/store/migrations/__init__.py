"""The schema of a store, step by step."""
