"""Registries of servers: what they say of a server, and the entry of ours that is made of it. Pure.

    object -> server_json -> ways_to_run (how it can be run) -> slots (what is asked) -> entry (settings)

`server_json` (of 2025-12-11, bounded, what the API of 2025-12-01 answers around it, NAME@VERSION, and the `source` of
an upstream), `ways_to_run` (with: identifiers, exact versions, what a publisher may not ask for), `places_to_fill`
(arguments, variables and headers, and their texts, escaped), `bundle_manifest` (the manifest of a bundle, and the way
to run what is in it), `entry_of_answers` (with: what a person has to say, and whether an answer will do),
`answers_in_entry` (those that an entry was made of).

It lies in `config`, since what it makes are settings; whoever asks a registry, and people, is in `hub.cli.registry`.

What always holds: the texts of a registry are data. Nothing of them is read as a reference, none chooses a program, and
what is not understood is refused and not left out.
"""
