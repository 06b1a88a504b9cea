"""Catalogue: the names, URIs and lists that hosts see. Pure.

Read in this order: `endpoint_views` (which view one endpoint shows), `catalog` (a snapshot of one view, swapped as a
whole), `merge_catalog` (how it is made; `time_slices` lets others run meanwhile), `upstream_entries` (the part of one
upstream), `visible_names` (the rules of the configuration, and visible names), `uri_claims` (visible URIs, and the way
back), `list_result`. Besides: `uri_tags`, `uri_templates` and `rewrite_embedded_uris` (URIs as text, which ones may
come of a template, and URIs inside results and arguments), `instructions` (texts for the model), `token_cost` (what
they and the tools cost it), `tool_annotations` (what a tool may do, and who says so), `account_argument` (which of
several accounts at a server serves a call), `pipelines` (tools of the hub's own that call others),
`result_and_resource_tools` (those that some views list), `sign_in_tool` (what an upstream shows that says nothing of
itself before a person has signed in), `search` (how a model finds tools that it is not shown), `profiles` (what some
hosts are shown of all).

A visible name leads to the upstream that it came from, whatever has changed meanwhile.
"""
