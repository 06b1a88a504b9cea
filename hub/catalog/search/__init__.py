"""Search: how a model finds the tools of a view that it is not shown. Pure.

Read in this order: `meta_tools` (the tools for finding and calling, and what finding answers), `index` (the rank of
each tool for a query), `words` (what the index compares). Which hosts are shown them:
`hub.catalog.profiles.profile_choice`.

A search never changes what is listed. The index is made of what a view shows and of nothing else, so what is hidden
from a host can be neither found nor guessed from what it finds.
"""
