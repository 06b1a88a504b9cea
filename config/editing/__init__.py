"""Editing our files: `draft` is a change before it is written, `beside_main` the files that an import writes
and the record of a shell in `hubd.env`, `text` edits files so that everything around the change stays.
"""
