"""Recorded results of tasks, and the hashes by which they stay valid."""

from murmuration.home import open_home

open_home()
