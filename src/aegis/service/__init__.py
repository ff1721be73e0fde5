"""The live gate: decisions over HTTP beside a running controller, a store that loses nothing, a dashboard, a client."""
