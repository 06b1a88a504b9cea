"""Questions that servers ask of hosts: sampling, elicitation and roots, translated between revisions. Pure.

- `question`           whether a host can be asked, the question for its revision, its answer for the server's revision.
- `sampling`           content of sampling messages.
- `older_forms`        forms for hosts of 2025-06-18.
- `page_urls`          URLs that a person may be asked to open.
"""
