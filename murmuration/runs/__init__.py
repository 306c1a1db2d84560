"""What the commands do: comparisons, training, services, films, and the frame that all commands share."""

from murmuration.home import open_home

open_home()
