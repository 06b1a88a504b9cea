"""Questions that servers ask of hosts: sampling, elicitation and roots, translated between revisions. Pure.

- `question`           whether a host can be asked, the question for its revision, its answer for the server's revision.
- `older_forms`        forms and sampling messages for readers of older revisions.
- `page_urls`          URLs that a person may be asked to open.
"""
