"""How tests run: how many examples, on which worker, for how long."""
