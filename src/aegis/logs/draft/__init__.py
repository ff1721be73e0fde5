"""Drafting a problem file from a log: guesses from the names and values of its columns, each with its reason."""

from aegis.logs.draft.draft import Draft, draft_problem

__all__ = ["Draft", "draft_problem"]
