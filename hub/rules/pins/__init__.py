"""Pins: the definitions of servers as they were approved, and what hosts are shown when a server changes them.

    store                   one file for each server: what was approved, and the last three approvals
    saved_records           these in memory, saved when they change
    team_pins               the file of approved hashes that a fleet has in common
    judge                   what is new, changed or gone, and what hosts are shown of it by the setting `pinning`
    reviews                 what hosts are shown of one server, without hidden text
    pins                    all of it for the servers that run, whenever their lists were read (`Pins`)
    refuse_unapproved       refuses calls of what is held back
    describe_server         what a person is shown of a server; `differences`: of one definition
    prompt_injection_flags  what reads as if it were meant to steer a model

A catalogue is made of what a review lets through. The last known lists stay as they were received, so a restart,
another setting and an approval take effect on the same lists.
"""
