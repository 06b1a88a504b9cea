"""Hosts on newline-framed connections: `server` accepts on the unix socket, `connection` serves one host there or on
stdio.
"""
