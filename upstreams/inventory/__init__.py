"""What an upstream offers: `offered` is what is known of it now, and the one gate for lists; `lists` reads them page by
page, `refresh` again when somebody asks, `freshness` says how long they are good, `last_known` what they were in an
earlier run.
"""
