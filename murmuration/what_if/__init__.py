"""What another policy, or another cluster, would have done with the jobs of a trace (`scripts/what_if.py`).

`replay` reads the trace; `played` plays it; `alternatives` changes it; `waits` and `hours` measure what came of it;
`trust` compares with what was recorded; `report`, `page` and `drawing` show it.
"""
