"""Bundles (.mcpb) on the command line: `hubd add FILE.mcpb`, those that a registry names, and `hubd update NAME`.

`archive` looks at the file before anything of it is written, `folders` has what is unpacked, `download` gets one that a
registry names; `add_bundle` and `update_bundle` are the commands. What a manifest means is decided in
`config.registry.bundle_manifest`; what is asked and shown is as for registries (`hub.cli.registry`).

Nothing of a bundle runs before somebody agreed, and nothing is unpacked before either.
"""
