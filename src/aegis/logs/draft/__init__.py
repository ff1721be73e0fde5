"""Draft."""

from aegis.logs.draft.draft import Draft, draft_problem

__all__ = ["Draft", "draft_problem"]
