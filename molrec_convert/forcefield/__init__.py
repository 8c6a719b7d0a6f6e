"""Force fields: what styles mean, what system rows take from them, and what the numbers are in.

`categories`, `units`, `styles`, `standard_styles`, `registry` and `expression` hold knowledge and need no record;
`linking`, `pairs`, `definitions` and `findings` work on the `ForceField` and `Frame` of the model.
"""
