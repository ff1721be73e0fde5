"""Validation by simulation: how often bounds exceed the truth, and how many units a certificate takes."""
