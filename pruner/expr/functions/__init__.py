"""Functions of one column that plain statistics of the column serve: what a condition on the result says of the column.

`rows` is the table: one readable row for each function. `inverse` has the shapes that a rule can take, and `numbers`,
`moments` and `texts` the rules. A rule is a reference in exact integers for the values on which the engines were
compared with it; of other values a rule says nothing, and so keeps their files.
"""
