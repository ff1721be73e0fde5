"""HTTP: connections, admission of requests, and what surrounds each of them."""
