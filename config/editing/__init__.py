"""Editing our files: `draft_across_files` is a change before it is written, `imported_file` what an import writes for a
host, `text` edits files so that everything around the change stays.
"""
