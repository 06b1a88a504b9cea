"""Inventory: what one upstream lists.

`current_lists` (what is known now and how long it is good, and the one gate that lists pass: `Offered.replace_lists`),
`read_lists` (reads a list page by page), `refresh` (when they are read again), `last_known_lists` (kept between runs,
and who is not waited for at a start), `hidden_text` (what nobody sees in them), `compiled_schemas` (what fits the
schemas of tools, and which are never fetched).
"""
