"""Questions that servers ask of hosts: sampling, elicitation and roots, translated between revisions. Pure.

- `askable_questions`  a question, whether a host can be asked it, and the reply when nobody answers.
- `check_and_translate`  the question for the host's revision, its answer for the server's revision.
- `older_forms_and_sampling`  both for readers of older revisions.
- `page_urls`        URLs that a person may be asked to open.
"""
