"""Random worlds with all faults on, a bridge that is killed again and again, and changed input for every reader."""

from murmuration.home import open_home

open_home()
