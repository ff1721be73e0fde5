"""`python -m aegis.cli`."""

from aegis.cli import main

main()
