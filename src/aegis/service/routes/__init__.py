"""The routes of the service, by their users: control systems, operators, readers, browsers."""
