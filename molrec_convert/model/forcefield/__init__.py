"""Force fields: what styles mean, what system rows take from them, and what the numbers are in.

`categories`, `units`, `styles`, `registry` and `expression` hold knowledge and need no record, `tables` and `document`
are what a record holds; `links`, `linking`, `pairs`, `definitions` and `findings` work on them.
"""
