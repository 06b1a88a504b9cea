"""Catalogue: the names, URIs and lists that hosts see. Pure.

Read in this order: `view` (what one endpoint shows), `catalog` (a snapshot of one view, swapped as a whole), `merging`
(how it is made, in `steps`), `entries` (the part of one upstream), `naming_rules`, `names` (visible names),
`name_table` (whose they are), `uri_claims` (visible URIs, and the way back), `list_result`. Besides: `uris`,
`templates` and `rewrite` (URIs as text, templates, and URIs inside results and arguments), `apps` (MCP Apps), `renames`
(other names and descriptions of tools), `instructions` (texts for the model), `token_cost` (what they and the tools
cost it), `sign_in_tool` (what an upstream shows that says nothing of itself before a person has signed in), `search`
(how a model finds tools that it is not shown). Of profiles: `profile_choice` (which one a host is shown), `choosing`,
`profile_rules` and `chosen_entries` (what it makes of a catalogue and its entries), `fixed_arguments` (of tools),
`unmatched` (settings that name tools which are not there), `meant_names` (what they probably mean).

A visible name leads to the upstream that it came from, whatever has changed meanwhile.
"""
