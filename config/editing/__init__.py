"""Editing our files: `draft` is a change before it is written, `imported` the files that an import writes, `text`
edits them so that everything around the change stays.
"""
