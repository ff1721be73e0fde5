"""The routes of the service, by who uses them: control systems, whoever reads, operators, browsers."""
