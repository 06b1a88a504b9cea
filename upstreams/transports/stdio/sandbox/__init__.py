"""Sandboxes: what the process of a server may see and touch, by bubblewrap, and what it may take, by prlimit.

Read in this order: `arguments` (the command in front of a server's, from facts; pure), `enclose` (finds these facts on
this machine, and whether bubblewrap works here), `refusals` (what a server says that ran into its walls; pure), with
`tool_chains.toml` (where people keep programs of their own).
"""
