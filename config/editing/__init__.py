"""Editing our files: `draft` is a change before it is written, `imported` the files that an import writes,
`environment_file` records a shell in `hubd.env`, `text` edits files so that everything around the change stays.
"""
