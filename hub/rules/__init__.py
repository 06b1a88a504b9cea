"""Rules: who may see and call what, how a person says yes, and what is written down of it.

README.md has a first rule. `policy` has the verdicts: selectors of the configuration are compiled to tables, and a call
looks its verdict up there. `approvals` has a person asked where a rule wants that; `hooks` asks programs of the user;
`pins` compares what servers list with what was approved of it, and holds back what differs; `schema_validation` checks
arguments and results by the schemas of tools; `audit` writes down what was called and decided, and all others note that
there. `fingerprints` tells definitions apart, and `settle_arguments` makes arguments that can be read in one way only.
All of it is stages of the one chain that every operation of a host passes (`hub.routing.compose_chains`), over modules
that decide and do nothing else. Without a rule nobody is asked and nothing is looked up.

What always holds: a deny wins, and an error is a deny; what was judged is what is sent; nothing that a host, a server
or a model sends widens its own rights.
"""
