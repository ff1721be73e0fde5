"""The sections of a page: each turns the document into what its template writes, and decides nothing about looks."""
