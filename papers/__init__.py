"""The tables and figures of the papers, theirs beside ours."""
