"""The commands of `pruner`, each module one or a family; what they share is a level up."""
