"""The Trino server of the tests and the demo, and the plugin's jar."""
