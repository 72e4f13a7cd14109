"""Functions of one column that its plain statistics serve: what a condition on the result implies for the column.

`registry` is the table: one readable row per function. `inverse` has the forms that a rule can take; `numbers`,
`decimals`, `moments`, `cycles` and `texts` have the rules. A rule is a reference in exact integers for the values on
which the engines were compared with it; it says nothing about other values, and so keeps their files.
"""
