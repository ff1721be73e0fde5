"""The charts of a page, each a function from numbers to an inline picture."""
