"""Published data sets as logs, one module each."""
