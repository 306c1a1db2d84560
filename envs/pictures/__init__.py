"""Pictures and texts for people: plots, Gantt charts, tables on the terminal.

Import its modules directly, so that computing results loads neither rich nor matplotlib.
"""
