"""Where the rows with some keys are: see `pruner.table.Table.tag_location`."""
