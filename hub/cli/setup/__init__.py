"""`hubd setup`: one guided command from servers in many hosts to one hub that serves them all.

`command` is the journey, step by step. `survey_hosts` reads the hosts' files; `verdicts` say what becomes of each
server; `probe` starts what they name in a private hub; `questions` asks; `carry_out` is all that would be written, and
writes it, and `screens` shows it; `start_hub` starts the hub; `hold_back_signals` holds Ctrl-C back while files are
written, `undo` takes back what was done so far.

What always holds: until the one yes nothing outside of a private temporary directory is written. A host's file changes
only after the hub was seen to serve what leaves it, and an interrupted setup leaves everything as it was.
"""
