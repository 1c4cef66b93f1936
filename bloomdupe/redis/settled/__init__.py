"""The records of a partition that change when its requests are settled.

``failed_requests`` has the failed requests, and ``tally`` the counts.
"""
