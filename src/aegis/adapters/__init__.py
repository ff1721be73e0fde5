"""Other libraries' policies and logs, and published data sets, brought into the form of this one."""
