"""Set-up code for developing the project: finds or fetches what the Python lock file cannot hold."""
