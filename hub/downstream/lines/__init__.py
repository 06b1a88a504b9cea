"""Hosts on newline-framed connections: `server` accepts on the unix socket, `preamble` reads who connects there,
`connection` serves one host there or on stdio.
"""
