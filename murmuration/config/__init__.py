"""From the words on a command line to typed descriptions of runs, and objects built from them; Hydra stops here."""

from murmuration.home import open_home

open_home()
